// Threads of a warp that keep a coordinate each of a register axis give the others away, half of them in each step; the
// threads of the other axis then all have the fold. Of an axis that is taken at one coordinate no other one is folded.
// RUN: deplodock-opt %s -p materialize,place-barriers,verify-barriers --check-semantics | filecheck %s

// CHECK-NOT:  shared
// CHECK:      loop.inside where (0 < %u floordiv 2)
// CHECK-COUNT-2: kernel.shuffle_xor %{{.*}}, 4 : f32
// CHECK:      loop.inside where (0 < %u mod 2)
// CHECK:      kernel.shuffle_xor %{{.*}}, 2 : f32
// CHECK:      kernel.shuffle_xor %{{.*}}, 1 : f32
// CHECK-NOT:  kernel.shuffle_xor
func.func @scatter(%x: memref<32x4x2xf32>, %out: memref<4x4xf32>) {
  tile.launch (%g = 4 : thread, %u = 4 : thread, %v = 2 : thread, %i = 4 : register, %h = 2 : register, %l = 4 : lane %u) {
    %x_0 = loop.load %x[%g * 8 + %u * 2 + %v, %i, %h] : memref<32x4x2xf32>
    %sum = tile.combine {arith.addf} %x_0 over (%u, %v) at (%i = %l, %h = 0) : f32
    loop.store %sum, %out[%g, %l] : memref<4x4xf32>
  }
  func.return
}
