// RUN: not deplodock compile %s --schedule 'tileify,cooperative-reduce{threads=2048},blockify-launch{threads=2048}' 2>&1 | filecheck %s

func.func @main(%x: tensor<64x4096xf32>) -> tensor<64xf32> {
  %y = torch.aten.sum.dim_IntList %x {dim = [-1]} : tensor<64x4096xf32> -> tensor<64xf32>
  func.return %y : tensor<64xf32>
}

// CHECK:      errors_large.mlir:4:3: error: kernel.func: @k_sum has 2048 threads in a CTA, sm_90 allows 1024; give a CTA fewer
// CHECK-NEXT: note: in pass verify-resources
// CHECK-NOT:  {{.}}
