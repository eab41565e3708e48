// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP

// Nothing in common: x and z are other tensors.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-2: tensor_ext.kernel
// SKIP: %g is stored, not fused: a kernel holds one contraction, or several that share a factor and run through the same k
func.func @others(%x: tensor<64x96xbf16>, %z: tensor<64x96xbf16>, %wg: tensor<32x96xbf16>, %wu: tensor<32x96xbf16>) -> tensor<64x32xf32> {
  %xf = tensor_ext.elementwise {arith.extf} %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %zf = tensor_ext.elementwise {arith.extf} %z : tensor<64x96xbf16> -> tensor<64x96xf32>
  %gf = tensor_ext.elementwise {arith.extf} %wg : tensor<32x96xbf16> -> tensor<32x96xf32>
  %uf = tensor_ext.elementwise {arith.extf} %wu : tensor<32x96xbf16> -> tensor<32x96xf32>
  %a = tensor_ext.index_map %xf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %d = tensor_ext.index_map %zf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %b = tensor_ext.index_map %gf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %c = tensor_ext.index_map %uf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %pg = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x32x96xf32>
  %g = tensor_ext.reduce {arith.addf} %pg dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %pu = tensor_ext.elementwise {arith.mulf} %d, %c : tensor<64x32x96xf32>
  %u = tensor_ext.reduce {arith.addf} %pu dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %y = tensor_ext.elementwise {arith.mulf} %g, %u : tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}

// -----

// The first sum runs along half of k.
// CHECK-LABEL: func.func @half
// CHECK-COUNT-2: tensor_ext.kernel
// SKIP: %g is stored, not fused: a kernel holds one contraction, or several that share a factor and run through the same k
func.func @half(%x: tensor<64x96xbf16>, %wg: tensor<32x48xbf16>, %wu: tensor<32x96xbf16>) -> tensor<64x32xf32> {
  %xf = tensor_ext.elementwise {arith.extf} %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %gf = tensor_ext.elementwise {arith.extf} %wg : tensor<32x48xbf16> -> tensor<32x48xf32>
  %uf = tensor_ext.elementwise {arith.extf} %wu : tensor<32x96xbf16> -> tensor<32x96xf32>
  %a = tensor_ext.index_map %xf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %d = tensor_ext.index_map %xf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x48xf32>
  %b = tensor_ext.index_map %gf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x48xf32> -> tensor<64x32x48xf32>
  %c = tensor_ext.index_map %uf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %pg = tensor_ext.elementwise {arith.mulf} %d, %b : tensor<64x32x48xf32>
  %g = tensor_ext.reduce {arith.addf} %pg dims [2] : tensor<64x32x48xf32> -> tensor<64x32xf32>
  %pu = tensor_ext.elementwise {arith.mulf} %a, %c : tensor<64x32x96xf32>
  %u = tensor_ext.reduce {arith.addf} %pu dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %y = tensor_ext.elementwise {arith.mulf} %g, %u : tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}
