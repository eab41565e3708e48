// Every form of the kernel operations survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, shared_per_block = 232448>} {
// CHECK-NEXT:   kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 2) threads(%thread = 32) occupancy 4 attributes {tag = "kept"} {
// CHECK-NEXT:     %v = loop.load %x[%block * 32 + %thread] : memref<64xf32>
// CHECK-NEXT:     loop.store %v, %out[%block * 32 + %thread] : memref<64xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   kernel.func @empty() blocks(%block = 0) threads(%thread = 1) {
// CHECK-NEXT:   }
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, shared_per_block = 232448>} {
  kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 2) threads(%thread = 32) occupancy 4 attributes {tag = "kept"} {
    %v = loop.load %x[%block * 32 + %thread] : memref<64xf32>
    loop.store %v, %out[%block * 32 + %thread] : memref<64xf32>
  }
  kernel.func @empty() blocks(%block = 0) threads(%thread = 1) {}
  // CHECK:      func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
  // CHECK-NEXT:   %out = memref.alloc() : memref<64xf32>
  // CHECK-NEXT:   kernel.launch @k(%x, %out) : memref<64xf32>, memref<64xf32>
  // CHECK-NEXT:   kernel.launch @empty() {tag = "kept"}
  func.func @main(%x: memref<64xf32>) -> memref<64xf32> {
    %out = memref.alloc() : memref<64xf32>
    kernel.launch @k(%x, %out) : memref<64xf32>, memref<64xf32>
    kernel.launch @empty() {tag = "kept"}
    func.return %out : memref<64xf32>
  }
}

// -----

// A target need not state facts.
// CHECK: builtin.module attributes {kernel.target = #kernel.target<sm_80>} {
builtin.module attributes {kernel.target = #kernel.target<sm_80>} {
}

// -----

// CHECK-LABEL: kernel.func @on_chip
kernel.func @on_chip(%x: memref<4x1000xf32>, %out: memref<4x1000xf32>) blocks(%b = 4) threads(%t = 256) {
  // CHECK:      %slab = kernel.alloc : memref<1024xf32, #tile.memory<shared>>
  // CHECK-NEXT: %r = kernel.alloc {tag = "kept"} : memref<1x4xf32, #tile.memory<register>>
  %slab = kernel.alloc : memref<1024xf32, #tile.memory<shared>>
  %r = kernel.alloc {tag = "kept"} : memref<1x4xf32, #tile.memory<register>>
  // CHECK-NEXT: kernel.move 4 %x[%b, %t * 4] to %r[0, 0] where (%t * 4 < 1000, %b < 3) {tag = "kept"} : memref<4x1000xf32> to memref<1x4xf32, #tile.memory<register>>
  kernel.move 4 %x[%b, %t * 4] to %r[0, 0] where (%t * 4 < 1000, %b < 3) {tag = "kept"} : memref<4x1000xf32> to memref<1x4xf32, #tile.memory<register>>
  // CHECK-NEXT: kernel.move 2 %r[0, 2] to %slab[%t * 4 + 2] : memref<1x4xf32, #tile.memory<register>> to memref<1024xf32, #tile.memory<shared>>
  kernel.move 2 %r[0, 2] to %slab[%t * 4 + 2] : memref<1x4xf32, #tile.memory<register>> to memref<1024xf32, #tile.memory<shared>>
  // CHECK-NEXT: kernel.barrier
  kernel.barrier
  // CHECK-NEXT: kernel.barrier {tag = "kept"}
  kernel.barrier {tag = "kept"}
  %v = loop.load %slab[%t * 4 + 3] : memref<1024xf32, #tile.memory<shared>>
  // CHECK:      %w = kernel.shuffle_xor %v, 16 : f32
  %w = kernel.shuffle_xor %v, 16 : f32
  // CHECK-NEXT: %u = kernel.shuffle_xor %w, 1 {tag = "kept"} : f32
  %u = kernel.shuffle_xor %w, 1 {tag = "kept"} : f32
  // CHECK-NEXT: %up = kernel.shuffle_up %w, 4 : f32
  %up = kernel.shuffle_up %w, 4 : f32
  // CHECK-NEXT: %last = kernel.shuffle_last %w, 8 : f32
  %last = kernel.shuffle_last %w, 8 : f32
  // CHECK-NEXT: loop.guard where (%t < 250) {
  // CHECK-NEXT:   kernel.move 1 %r[0, 0] to %out[%b, %t] : memref<1x4xf32, #tile.memory<register>> to memref<4x1000xf32>
  loop.guard where (%t < 250) {
    kernel.move 1 %r[0, 0] to %out[%b, %t] : memref<1x4xf32, #tile.memory<register>> to memref<4x1000xf32>
  }
}

// -----

// CHECK: kernel.func @generic(%x: memref<8xi32>) blocks(%b = 1) threads(%t = 32) {
"kernel.func"() <{sym_name = "generic", function_type = (memref<8xi32>) -> (), blocks = 1 : i64, threads = 32 : i64}> ({
^bb0(%x: memref<8xi32>, %b: index, %t: index):
  // CHECK-NEXT: %r = kernel.alloc : memref<2xi32, #tile.memory<register>>
  %r = "kernel.alloc"() : () -> memref<2xi32, #tile.memory<register>>
  // CHECK-NEXT: kernel.move 2 %x[%t] to %r[0] where (%b < %t) : memref<8xi32> to memref<2xi32, #tile.memory<register>>
  "kernel.move"(%x, %r, %t, %t, %b) <{
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 2>, width = 2 : i64, source_map = affine_map<(d0) -> (d0)>,
    destination_map = affine_map<() -> (0)>, where = affine_map<(d0, d1) -> (d1, d0)>
  }> : (memref<8xi32>, memref<2xi32, #tile.memory<register>>, index, index, index) -> ()
}) : () -> ()
