// RUN: deplodock-opt %s -p form-kernels --split-input-file | filecheck %s

// Padding is never stored: a mask is known from coordinates, and a maximum leaves out what is -inf.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-1: tensor_ext.kernel
// CHECK-NOT:     tensor_ext.kernel
func.func @main(%x: tensor<64x512x512xf32>) -> tensor<64x512x512xf32> {
  %row = tensor_ext.iota dim 1 : tensor<64x522x522xi64>
  %column = tensor_ext.iota dim 2 : tensor<64x522x522xi64>
  %first = arith.constant dense<5> : tensor<i64>
  %firsts = tensor_ext.index_map %first affine_map<(d0, d1, d2) -> ()> : tensor<i64> -> tensor<64x522x522xi64>
  %below = tensor_ext.elementwise %row, %firsts : tensor<64x522x522xi64>, tensor<64x522x522xi64> -> tensor<64x522x522xi1> (%a: i64, %b: i64) {
    %c = arith.cmpi sge, %a, %b : i64
    tensor_ext.yield %c : i1
  }
  %right = tensor_ext.elementwise %column, %firsts : tensor<64x522x522xi64>, tensor<64x522x522xi64> -> tensor<64x522x522xi1> (%a: i64, %b: i64) {
    %c = arith.cmpi sge, %a, %b : i64
    tensor_ext.yield %c : i1
  }
  %inside = tensor_ext.elementwise {arith.andi} %below, %right : tensor<64x522x522xi1>
  %inf = arith.constant dense<0xff800000> : tensor<f32>
  %infs = tensor_ext.index_map %inf affine_map<(d0, d1, d2) -> ()> : tensor<f32> -> tensor<64x522x522xf32>
  %read = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, (d1 + 507) mod 512, (d2 + 507) mod 512)> : tensor<64x512x512xf32> -> tensor<64x522x522xf32>
  %padded = tensor_ext.elementwise {arith.select} %inside, %read, %infs : tensor<64x522x522xi1>, tensor<64x522x522xf32>, tensor<64x522x522xf32> -> tensor<64x522x522xf32>
  %windows = tensor_ext.index_map %padded affine_map<(d0, d1, d2, d3, d4) -> (d0, d1 + d3, d2 + d4)> : tensor<64x522x522xf32> -> tensor<64x512x512x11x11xf32>
  %max = tensor_ext.reduce {arith.maximumf} %windows dims [3, 4] : tensor<64x512x512x11x11xf32> -> tensor<64x512x512xf32>
  func.return %max : tensor<64x512x512xf32>
}
