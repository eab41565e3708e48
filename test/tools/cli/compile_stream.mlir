// RUN: deplodock compile %s --stream always --ir loop -vv 2>&1 | filecheck %s
// RUN: deplodock compile %s --stream never --ir loop 2>&1 | filecheck %s --check-prefix THREE
// RUN: not deplodock compile %s --stream often 2>&1 | filecheck %s --check-prefix BAD

// With --stream attention is one kernel, and the trace shows how three loops over its keys become one.
// CHECK:      >>> l:002_stream_reductions @k_matmul
// CHECK:      -{{.*}}loop.reduce {arith.maximumf} %{{.*}} = 0 to 64 : f32 {
// CHECK:      +{{.*}}loop.reduce %{{.*}} = 0 to 64 : f32, f32, f32 {
// CHECK:      <<< l:002_stream_reductions
// CHECK-COUNT-1: func.call
// CHECK-NOT:     func.call
// THREE-COUNT-2: func.call
// BAD: Invalid value for '--stream'
func.func @main(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x64x4xf32>, %v: tensor<1x1x64x4xf32>) -> tensor<1x1x8x4xf32> {
  %0 = torch.aten.scaled_dot_product_attention %q, %k, %v : tensor<1x1x8x4xf32>, tensor<1x1x64x4xf32>, tensor<1x1x64x4xf32> -> tensor<1x1x8x4xf32>
  func.return %0 : tensor<1x1x8x4xf32>
}
