// RUN: deplodock-opt %s -p 'stage-inputs{transpose=auto}' | filecheck %s
// RUN: deplodock-opt %s -p 'stage-inputs{transpose=auto}' --check-semantics

// Where a factor of a contraction divides k or an axis of the output, its slab has an element for each point of both:
// windows of images become the columns of a matrix. k comes first, also where it walks memory.
// CHECK:      loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
// CHECK-NEXT:   %image_smem = tile.stage %image[(%n_b * 16 + d1) floordiv 20, %ko * 2 + d0 floordiv 3, (%n_b * 16 + d1) mod 20 + d0 mod 3]
// CHECK-SAME:     : memref<2x4x22xf32> to memref<6x16xf32, #tile.memory<shared>>
// CHECK-NEXT:   %weight_smem = tile.stage %weight[d1, %ko * 2 + d0 floordiv 3, d0 mod 3]
// CHECK-SAME:     : memref<8x4x3xf32> to memref<6x8xf32, #tile.memory<shared>>
// CHECK:          %a = loop.load %image_smem[%ki, %n_t] : memref<6x16xf32, #tile.memory<shared>>
// CHECK:          %v = loop.load %weight_smem[%ki, %c] : memref<6x8xf32, #tile.memory<shared>>
func.func @windows(%image: memref<2x4x22xf32>, %weight: memref<8x4x3xf32>, %out: memref<2x8x20xf32>) {
  tile.launch (%n_b = 3 : block, %c = 8 : thread, %n_t = 16 : thread) {
    %n = loop.index [%n_b * 16 + %n_t]
    loop.where %n < 40
    %b = loop.index [%n floordiv 20]
    %x = loop.index [%n mod 20]
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 6 : f32 {
        %k = loop.index [%ko * 6 + %ki]
        %i = loop.index [%k floordiv 3]
        %w = loop.index [%k mod 3]
        %a = loop.load %image[%b, %i, %x + %w] : memref<2x4x22xf32>
        %v = loop.load %weight[%c, %i, %w] : memref<8x4x3xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%b, %c, %x] : memref<2x8x20xf32>
  }
  func.return
}
