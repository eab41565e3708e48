// RUN: deplodock compile %s -vv | filecheck %s

// Each pass from a launch to a kernel shows what it did: what one thread runs, its copies, and then the kernel.
// CHECK:      >>> k:001_expand_launch @k
// CHECK:      {{^}}-  tile.launch (%b = 2 : block, %i = 4 : thread, %j = 8 : thread) {
// CHECK-NEXT: {{^}}+  tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
// CHECK:      <<< k:001_expand_launch
// CHECK-NEXT: >>> k:002_lower_copies @k
// CHECK:      {{^}}-    %xs = tile.stage %x[%b * 4 + d0, d1]
// CHECK-NEXT: {{^}}+    %xs = kernel.alloc
// CHECK-NEXT: {{^}}+    kernel.move 4 %x
// CHECK:      <<< k:002_lower_copies
// CHECK-NEXT: >>> k:003_outline @k
// CHECK:      {{^}}-  tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
// CHECK:      <<< k:003_outline
// CHECK:      >>> k:004_place_barriers @k
// CHECK:      __global__
func.func @k(%x: memref<8x32xf32>, %out: memref<8x8xf32>) {
  tile.launch (%b = 2 : block, %i = 4 : thread, %j = 8 : thread) {
    %xs = tile.stage %x[%b * 4 + d0, d1] : memref<8x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    %v = loop.load %xs[%i, 31 - %j] : memref<4x32xf32, #tile.memory<shared>>
    loop.store %v, %out[%b * 4 + %i, %j] : memref<8x8xf32>
  }
  func.return
}
