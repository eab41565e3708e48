// RUN: not deplodock-opt %s -p form-kernels,lower-to-loops 2>&1 | filecheck %s

// CHECK: error: {{.*}}each result of @cell must be computed in it, and be another; copy it there
func.func @cell(%h: tensor<4xf32>) -> tensor<4xf32> {
  func.return %h : tensor<4xf32>
}
func.func @main(%h: tensor<4xf32>) -> tensor<9x4xf32> {
  %hs = tensor_ext.recurrence @cell from (%h : tensor<4xf32>) -> tensor<9x4xf32>
  func.return %hs : tensor<9x4xf32>
}
