// RUN: deplodock-opt %s -p form-kernels | filecheck %s

// Scores of 16 GiB are not stored, though no tensor core takes the products.
// CHECK:     tensor_ext.kernel @k_o
// CHECK-NOT: tensor_ext.kernel
func.func @attention(%q: tensor<65536x512xf32>, %k: tensor<65536x512xf32>, %v: tensor<65536x512xf32>) -> tensor<65536x512xf32> {
  %a = tensor_ext.index_map %q affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<65536x512xf32> -> tensor<65536x65536x512xf32>
  %b = tensor_ext.index_map %k affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<65536x512xf32> -> tensor<65536x65536x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<65536x65536x512xf32>
  %s = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<65536x65536x512xf32> -> tensor<65536x65536xf32>
  %max = tensor_ext.reduce {arith.maximumf} %s dims [1] : tensor<65536x65536xf32> -> tensor<65536xf32>
  %max_1 = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<65536xf32> -> tensor<65536x65536xf32>
  %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<65536x65536xf32>
  %e = tensor_ext.elementwise %shifted : tensor<65536x65536xf32> -> tensor<65536x65536xf32> (%0: f32) {
    %1 = math.exp %0 fastmath<reassoc> : f32
    tensor_ext.yield %1 : f32
  }
  %sum = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<65536x65536xf32> -> tensor<65536xf32>
  %sum_1 = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<65536xf32> -> tensor<65536x65536xf32>
  %p = tensor_ext.elementwise %e, %sum_1 : tensor<65536x65536xf32>, tensor<65536x65536xf32> -> tensor<65536x65536xf32> (%2: f32, %3: f32) {
    %4 = arith.divf %2, %3 fastmath<reassoc> : f32
    tensor_ext.yield %4 : f32
  }
  %c = tensor_ext.index_map %p affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<65536x65536xf32> -> tensor<65536x512x65536xf32>
  %d = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<65536x512xf32> -> tensor<65536x512x65536xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<65536x512x65536xf32>
  %o = tensor_ext.reduce {arith.addf} %cd dims [2] : tensor<65536x512x65536xf32> -> tensor<65536x512xf32>
  func.return %o : tensor<65536x512xf32>
}
