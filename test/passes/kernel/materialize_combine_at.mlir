// A fold that each thread takes a share of: all publish their registers, and each folds those at its own place.
// RUN: deplodock-opt %s -p materialize,place-barriers,verify-barriers --check-semantics | filecheck %s

// CHECK:      %[[PART:.*]] = kernel.alloc : memref<4x2x16xf32, #tile.memory<shared>>
// CHECK:      kernel.barrier
// CHECK:      loop.for %[[J:.*]] = 0 to 2 unroll {
// CHECK:        loop.for %[[W:.*]] = 0 to 4 unroll {
// CHECK:          loop.load %[[PART]][%w, %[[J]], %[[W]] * 4 + %t] : memref<4x2x16xf32, #tile.memory<shared>>
// CHECK:      loop.guard where (%w * 4 + %t < 15) {
func.func @share(%x: memref<16x4x2xf32>, %out: memref<15x2xf32>) {
  tile.launch (%w = 4 : thread, %t = 4 : thread, %i = 4 : register, %j = 2 : register, %l = 4 : lane %w) {
    %v = loop.load %x[%w * 4 + %t, %i, %j] : memref<16x4x2xf32>
    %sum = tile.combine {arith.addf} %v over (%w) at (%i = %l) : f32
    %at = loop.index [%l * 4 + %t]
    loop.where %at < 15
    loop.store %sum, %out[%at, %j] : memref<15x2xf32>
  }
  func.return
}
