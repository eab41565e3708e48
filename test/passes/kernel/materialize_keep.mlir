// RUN: deplodock-opt %s -p materialize,place-barriers | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers --check-semantics -o /dev/null

// Threads write their values to shared memory, in a loop behind a barrier that waits for the readers of the last step.
// Along an axis that the subscripts do not mention the first thread writes.
// CHECK-LABEL: kernel.func @k
// CHECK:         loop.for %i = 0 to 3 {
// CHECK:           %s = kernel.alloc : memref<4x9xf32, #tile.memory<shared>>
// CHECK:           kernel.barrier
// CHECK:             loop.guard where (%{{.*}} < 1) {
// CHECK-NEXT:          %{{.*}} = loop.load %v[%r]
// CHECK:               loop.store %{{.*}}, %s[%r, %t] : memref<4x9xf32, #tile.memory<shared>>
// CHECK:           kernel.barrier
// CHECK:           loop.load %s[%{{.*}} mod 4, {{.*}}]
func.func @k(%x: memref<3x8x4xf32>, %out: memref<7x2xf32>) {
  tile.launch (%t = 8 : thread, %u = 2 : thread, %r = 4 : register) {
    loop.where %t < 7
    %total = loop.reduce {arith.addf} %i = 0 to 3 : f32 {
      %v = loop.load %x[%i, %t, %r] : memref<3x8x4xf32>
      %s = tile.keep %v[%r, %t] : memref<4x9xf32, #tile.memory<shared>>
      %w = loop.load %s[%t mod 4, %t floordiv 4 + %u] : memref<4x9xf32, #tile.memory<shared>>
      loop.yield %w : f32
    }
    loop.store %total, %out[%t, %u] : memref<7x2xf32>
  }
  func.return
}
