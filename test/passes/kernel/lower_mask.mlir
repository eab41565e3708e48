// RUN: deplodock-opt %s -p 'expand-launch' | filecheck %s

// A mask of registers by coordinates stands in a branch that a CTA takes only where some point of it fails.
// CHECK:         %masked = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK:         loop.guard where (0 < %b * 128 - 372) {
// CHECK-NEXT:      loop.for %[[R:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        %[[IN:.*]] = loop.inside where (%b * 128 + %t * 4 + %[[R]] < 500)
// CHECK-NEXT:        %[[OLD:.*]] = loop.load %masked[%[[R]]]
// CHECK-NEXT:        %[[NEW:.*]] = arith.select %[[IN]], %[[OLD]], %{{.*}} : f32
// CHECK-NEXT:        loop.store %[[NEW]], %masked[%[[R]]]
func.func @k(%x: memref<512xf32>, %out: memref<512xf32>) {
  %low = arith.constant 0xff800000 : f32
  tile.launch (%b = 4 : block, %t = 32 : thread, %r = 4 : register) {
    %i = loop.index [%b * 128 + %t * 4 + %r]
    %v = loop.load %x[%i] : memref<512xf32>
    %inside = loop.inside where (%i < 500)
    %masked = arith.select %inside, %v, %low : f32
    loop.store %masked, %out[%i] : memref<512xf32>
  }
  func.return
}
