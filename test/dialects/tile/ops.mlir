// Every form of the tile operations survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @launch
func.func @launch(%n: index, %m: index) {
  // CHECK-NEXT: tile.launch (%row = 32 : block, %t = 256 : thread, %v = 4 : register) occupancy 2 {
  // CHECK-NEXT: }
  tile.launch (%row = 32 : block, %t = 256 : thread, %v = 4 : register) occupancy 2 {
  }
  // CHECK-NEXT: tile.launch (%b = (%n + 127) floordiv 128 : block, %c = %m * 2 : block, %u = %n - %m : thread) attributes {tag = "kept"} {
  // CHECK-NEXT:   %i = loop.index [%b * 128 + %u]
  // CHECK-NEXT:   loop.where %i < %n
  // CHECK-NEXT: }
  tile.launch (%b = (%n + 127) floordiv 128 : block, %c = %m * 2 : block, %u = %n - %m : thread) attributes {tag = "kept"} {
    %i = loop.index [%b * 128 + %u]
    loop.where %i < %n
  }
  // CHECK-NEXT: tile.launch (%row_1 = 32 : block, %t_1 = 256 : thread) occupancy 2 stream 24 {
  // CHECK-NEXT: }
  tile.launch (%row = 32 : block, %t = 256 : thread) occupancy 2 stream 24 {
  }
  // CHECK-NEXT: tile.launch (%row_2 = 32 : block, %t_2 = 256 : thread) stream 24 tiles {
  // CHECK-NEXT: }
  tile.launch (%row = 32 : block, %t = 256 : thread) stream 24 tiles {
  }
  // CHECK-NEXT: tile.launch () {
  // CHECK-NEXT: }
  tile.launch () {}
  func.return
}

// -----

// CHECK-LABEL: func.func @combine
func.func @combine(%x: memref<1024xf32>) {
  tile.launch (%t = 256 : thread, %v = 4 : register) {
    %p = loop.load %x[%t * 4 + %v] : memref<1024xf32>
    // CHECK: %sum = tile.combine {arith.addf} %p over (%t, %v) : f32
    %sum = tile.combine {arith.addf} %p over (%t, %v) : f32
    // CHECK-NEXT: %s, %m = tile.combine {arith.addf, arith.maximumf} %p, %sum over (%v) {tag = "kept"} : f32, f32
    %s, %m = tile.combine {arith.addf, arith.maximumf} %p, %sum over (%v) {tag = "kept"} : f32, f32
    // CHECK-NEXT: %a, %b = tile.combine %p, %s over (%t) : f32, f32 combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.000000e+00 : f32] {
    // CHECK-NEXT:   %max = arith.maximumf %m0, %m1 : f32
    // CHECK-NEXT:   %less = arith.subf %s0, %s1 : f32
    // CHECK-NEXT:   loop.yield %max, %less : f32, f32
    // CHECK-NEXT: }
    %a, %b = tile.combine %p, %s over (%t) : f32, f32 combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %max = arith.maximumf %m0, %m1 : f32
      %less = arith.subf %s0, %s1 : f32
      loop.yield %max, %less : f32, f32
    }
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @stage
func.func @stage(%x: memref<500x3584xf32>) {
  tile.launch (%mb = 4 : block, %t = 128 : thread) {
    loop.for %ko = 0 to 112 {
      // CHECK:      %xs = tile.stage %x[%mb * 128 + d1, %ko * 32 + d0] : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
      %xs = tile.stage %x[%mb * 128 + d1, %ko * 32 + d0] : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
      // CHECK-NEXT: %row = tile.stage %x[%t, %ko * 4 + d0 * 2 - 1] {tag = "kept"} : memref<500x3584xf32> to memref<4xf32, #tile.memory<register>>
      %row = tile.stage %x[%t, %ko * 4 + d0 * 2 - 1] {tag = "kept"} : memref<500x3584xf32> to memref<4xf32, #tile.memory<register>>
      // CHECK-NEXT: %some = tile.stage %x[%t, %ko * 4 + d0] where (%ko * 4 + d0 < %mb + 1, d0 < 3) {tag = "kept"} : memref<500x3584xf32> to memref<4xf32, #tile.memory<register>>
      %some = tile.stage %x[%t, %ko * 4 + d0] where (%ko * 4 + d0 < %mb + 1, d0 < 3) {tag = "kept"} : memref<500x3584xf32> to memref<4xf32, #tile.memory<register>>
      // CHECK-NEXT: %one = tile.stage %x[0, 0] : memref<500x3584xf32> to memref<1x1xf32, #tile.memory<register>>
      %one = tile.stage %x[0, 0] : memref<500x3584xf32> to memref<1x1xf32, #tile.memory<register>>
      // CHECK-NEXT: %flat = tile.stage %x[(%mb * 32 + d0) floordiv 8, d0 mod 8 + %t] : memref<500x3584xf32> to memref<64xf32, #tile.memory<shared>>
      %flat = tile.stage %x[(%mb * 32 + d0) floordiv 8, d0 mod 8 + %t] : memref<500x3584xf32> to memref<64xf32, #tile.memory<shared>>
    }
  }
  func.return
}

// -----

// Attributes of their own keep their short names.
// CHECK:      builtin.module attributes {binding = #tile.binding<thread>, memory = #tile.memory<register>} {
// CHECK-NEXT:   func.func @generic
builtin.module attributes {binding = #tile.binding<thread>, memory = #tile.memory<register>} {
  func.func @generic(%n: index) {
    // CHECK-NEXT: tile.launch (%b = %n : block, %t = 32 : thread) occupancy 1 {
    "tile.launch"(%n) <{
      extents = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (32)>],
      bindings = [#tile.binding<block>, #tile.binding<thread>],
      occupancy = 1 : i64
    }> ({
    ^bb0(%b: index, %t: index):
    }) : (index) -> ()
    func.return
  }
}
