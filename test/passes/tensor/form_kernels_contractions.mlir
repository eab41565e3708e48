// RUN: deplodock-opt %s -p form-kernels --split-input-file 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP

// Two contractions of 16-bit factors share x and their loop: one kernel.
// CHECK-LABEL: func.func @narrow
// CHECK:         tensor_ext.kernel @k_y(
// CHECK-NOT:     tensor_ext.kernel
func.func @narrow(%x: tensor<64x96xbf16>, %wg: tensor<32x96xbf16>, %wu: tensor<32x96xbf16>) -> tensor<64x32xf32> {
  %xf = tensor_ext.elementwise {arith.extf} %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %gf = tensor_ext.elementwise {arith.extf} %wg : tensor<32x96xbf16> -> tensor<32x96xf32>
  %uf = tensor_ext.elementwise {arith.extf} %wu : tensor<32x96xbf16> -> tensor<32x96xf32>
  %a = tensor_ext.index_map %xf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %b = tensor_ext.index_map %gf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %c = tensor_ext.index_map %uf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %pg = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x32x96xf32>
  %g = tensor_ext.reduce {arith.addf} %pg dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %pu = tensor_ext.elementwise {arith.mulf} %a, %c : tensor<64x32x96xf32>
  %u = tensor_ext.reduce {arith.addf} %pu dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %y = tensor_ext.elementwise {arith.mulf} %g, %u : tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}

// -----

// Those of f32 do where the program says so.
// CHECK-LABEL: func.func @asked
// CHECK:         tensor_ext.kernel @k_y(
// CHECK-NOT:     tensor_ext.kernel
func.func @asked(%x: tensor<64x96xf32>, %wg: tensor<32x96xf32>, %wu: tensor<32x96xf32>) -> tensor<64x32xf32> {
  %a = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %b = tensor_ext.index_map %wg affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %c = tensor_ext.index_map %wu affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %pg = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x32x96xf32>
  %g = tensor_ext.reduce {arith.addf} %pg dims [2] attributes {deplodock.fuse = "always"} : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %pu = tensor_ext.elementwise {arith.mulf} %a, %c : tensor<64x32x96xf32>
  %u = tensor_ext.reduce {arith.addf} %pu dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %y = tensor_ext.elementwise {arith.mulf} %g, %u : tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}

// -----

// Five of them would leave each sum too few columns: the fifth is stored.
// SKIP: a kernel holds 4 contractions at most
// CHECK-LABEL: func.func @five
// CHECK-COUNT-2: tensor_ext.kernel
// CHECK-NOT:     tensor_ext.kernel
func.func @five(%x: tensor<64x96xbf16>, %wa: tensor<32x96xbf16>, %wb: tensor<32x96xbf16>, %wc: tensor<32x96xbf16>, %wd: tensor<32x96xbf16>, %we: tensor<32x96xbf16>) -> tensor<64x32xf32> {
  %xf = tensor_ext.elementwise {arith.extf} %x : tensor<64x96xbf16> -> tensor<64x96xf32>
  %xm = tensor_ext.index_map %xf affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x96xf32> -> tensor<64x32x96xf32>
  %af = tensor_ext.elementwise {arith.extf} %wa : tensor<32x96xbf16> -> tensor<32x96xf32>
  %am = tensor_ext.index_map %af affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %ap = tensor_ext.elementwise {arith.mulf} %xm, %am : tensor<64x32x96xf32>
  %a = tensor_ext.reduce {arith.addf} %ap dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %bf = tensor_ext.elementwise {arith.extf} %wb : tensor<32x96xbf16> -> tensor<32x96xf32>
  %bm = tensor_ext.index_map %bf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %bp = tensor_ext.elementwise {arith.mulf} %xm, %bm : tensor<64x32x96xf32>
  %b = tensor_ext.reduce {arith.addf} %bp dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %cf = tensor_ext.elementwise {arith.extf} %wc : tensor<32x96xbf16> -> tensor<32x96xf32>
  %cm = tensor_ext.index_map %cf affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %cp = tensor_ext.elementwise {arith.mulf} %xm, %cm : tensor<64x32x96xf32>
  %c = tensor_ext.reduce {arith.addf} %cp dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %df = tensor_ext.elementwise {arith.extf} %wd : tensor<32x96xbf16> -> tensor<32x96xf32>
  %dm = tensor_ext.index_map %df affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %dp = tensor_ext.elementwise {arith.mulf} %xm, %dm : tensor<64x32x96xf32>
  %d = tensor_ext.reduce {arith.addf} %dp dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %ef = tensor_ext.elementwise {arith.extf} %we : tensor<32x96xbf16> -> tensor<32x96xf32>
  %em = tensor_ext.index_map %ef affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<32x96xf32> -> tensor<64x32x96xf32>
  %ep = tensor_ext.elementwise {arith.mulf} %xm, %em : tensor<64x32x96xf32>
  %e = tensor_ext.reduce {arith.addf} %ep dims [2] : tensor<64x32x96xf32> -> tensor<64x32xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<64x32xf32>
  %abc = tensor_ext.elementwise {arith.mulf} %ab, %c : tensor<64x32xf32>
  %abcd = tensor_ext.elementwise {arith.mulf} %abc, %d : tensor<64x32xf32>
  %y = tensor_ext.elementwise {arith.mulf} %abcd, %e : tensor<64x32xf32>
  func.return %y : tensor<64x32xf32>
}
