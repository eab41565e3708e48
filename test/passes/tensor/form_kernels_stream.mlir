// RUN: deplodock-opt %s -p 'form-kernels{stream=never}' --split-input-file 2>/dev/null | filecheck %s --check-prefix APART
// RUN: deplodock-opt %s -p 'form-kernels{stream=always}' --split-input-file 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'form-kernels{stream=cheaper}' --split-input-file -o /dev/null 2>&1 | filecheck %s --check-prefix PRICE
// RUN: not deplodock-opt %s -p 'form-kernels{stream=often}' --split-input-file 2>&1 | filecheck %s --check-prefix BAD
// BAD: the option stream must be never, cheaper or always, got often

// A sum that a softmax weighs is one kernel with the softmax and its scores, which are not stored.
// APART-LABEL: func.func @attention
// APART-COUNT-3: tensor_ext.kernel
// PRICE: its softmax is stored, not streamed: one kernel costs {{.*}} us, 3 kernels {{.*}} us
// CHECK-LABEL: func.func @attention
// CHECK-NEXT:    %o = tensor_ext.kernel @k_o(%{{.*}} = %q : tensor<256x512xf32>, %{{.*}} = %k : tensor<256x512xf32>, %{{.*}} = %v : tensor<256x512xf32>) -> tensor<256x512xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @attention(%q: tensor<256x512xf32>, %k: tensor<256x512xf32>, %v: tensor<256x512xf32>) -> tensor<256x512xf32> {
  %a = tensor_ext.index_map %q affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<256x512xf32> -> tensor<256x256x512xf32>
  %b = tensor_ext.index_map %k affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<256x512xf32> -> tensor<256x256x512xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<256x256x512xf32>
  %s = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<256x256x512xf32> -> tensor<256x256xf32>
  %max = tensor_ext.reduce {arith.maximumf} %s dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %max_1 = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<256x256xf32>
  %e = tensor_ext.elementwise %shifted : tensor<256x256xf32> -> tensor<256x256xf32> (%0: f32) {
    %1 = math.exp %0 fastmath<reassoc> : f32
    tensor_ext.yield %1 : f32
  }
  %sum = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %sum_1 = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %p = tensor_ext.elementwise %e, %sum_1 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32> (%2: f32, %3: f32) {
    %4 = arith.divf %2, %3 fastmath<reassoc> : f32
    tensor_ext.yield %4 : f32
  }
  %c = tensor_ext.index_map %p affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<256x256xf32> -> tensor<256x512x256xf32>
  %d = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<256x512xf32> -> tensor<256x512x256xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<256x512x256xf32>
  %o = tensor_ext.reduce {arith.addf} %cd dims [2] : tensor<256x512x256xf32> -> tensor<256x512xf32>
  func.return %o : tensor<256x512xf32>
}

// -----

// Shares that are returned are stored in any case.
// SKIP: skipped at @k_o: its softmax is stored, not streamed: others need what it computes, too
// CHECK-LABEL: func.func @returned
// CHECK-COUNT-2: tensor_ext.kernel
func.func @returned(%s: tensor<256x256xf32>, %v: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<256x256xf32>) {
  %max = tensor_ext.reduce {arith.maximumf} %s dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %max_1 = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<256x256xf32>
  %e = tensor_ext.elementwise %shifted : tensor<256x256xf32> -> tensor<256x256xf32> (%0: f32) {
    %1 = math.exp %0 fastmath<reassoc> : f32
    tensor_ext.yield %1 : f32
  }
  %sum = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %sum_1 = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %p = tensor_ext.elementwise %e, %sum_1 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32> (%2: f32, %3: f32) {
    %4 = arith.divf %2, %3 fastmath<reassoc> : f32
    tensor_ext.yield %4 : f32
  }
  %c = tensor_ext.index_map %p affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<256x256xf32> -> tensor<256x512x256xf32>
  %d = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<256x512xf32> -> tensor<256x512x256xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<256x512x256xf32>
  %o = tensor_ext.reduce {arith.addf} %cd dims [2] : tensor<256x512x256xf32> -> tensor<256x512xf32>
  func.return %o, %p : tensor<256x512xf32>, tensor<256x256xf32>
}

// -----

// A sum that is stored together with what is computed from it keeps its kernel.
// SKIP: its softmax is stored, not streamed: the kernel of the sum stores more than that
// CHECK-LABEL: func.func @two
// CHECK-COUNT-2: tensor_ext.kernel
func.func @two(%s: tensor<256x256xf32>, %v: tensor<256x512xf32>) -> (tensor<256x512xf32>, tensor<256x512xf32>) {
  %max = tensor_ext.reduce {arith.maximumf} %s dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %max_1 = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<256x256xf32>
  %e = tensor_ext.elementwise %shifted : tensor<256x256xf32> -> tensor<256x256xf32> (%0: f32) {
    %1 = math.exp %0 fastmath<reassoc> : f32
    tensor_ext.yield %1 : f32
  }
  %sum = tensor_ext.reduce {arith.addf} %e dims [1] : tensor<256x256xf32> -> tensor<256xf32>
  %sum_1 = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<256xf32> -> tensor<256x256xf32>
  %p = tensor_ext.elementwise %e, %sum_1 : tensor<256x256xf32>, tensor<256x256xf32> -> tensor<256x256xf32> (%2: f32, %3: f32) {
    %4 = arith.divf %2, %3 fastmath<reassoc> : f32
    tensor_ext.yield %4 : f32
  }
  %c = tensor_ext.index_map %p affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<256x256xf32> -> tensor<256x512x256xf32>
  %d = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<256x512xf32> -> tensor<256x512x256xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<256x512x256xf32>
  %o = tensor_ext.reduce {arith.addf} %cd dims [2] : tensor<256x512x256xf32> -> tensor<256x512xf32>
  %double = tensor_ext.elementwise {arith.addf} %o, %o : tensor<256x512xf32>
  func.return %o, %double : tensor<256x512xf32>, tensor<256x512xf32>
}

// -----

// Columns that are heads side by side: each would compute the scores of its head again.
// SKIP: skipped at @k_flat: its softmax is stored, not streamed: its kernel runs along a part of an axis, whose scores it would compute again for each of the rest
// CHECK-LABEL: func.func @flat
func.func @flat(%q: tensor<4x8x16xf32>, %k: tensor<4x8x16xf32>, %v: tensor<4x8x16xf32>) -> tensor<8x64xf32> {
  %a = tensor_ext.index_map %q affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)> : tensor<4x8x16xf32> -> tensor<4x8x8x16xf32>
  %b = tensor_ext.index_map %k affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)> : tensor<4x8x16xf32> -> tensor<4x8x8x16xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<4x8x8x16xf32>
  %s = tensor_ext.reduce {arith.addf} %ab dims [3] : tensor<4x8x8x16xf32> -> tensor<4x8x8xf32>
  %max = tensor_ext.reduce {arith.maximumf} %s dims [2] : tensor<4x8x8xf32> -> tensor<4x8xf32>
  %max_1 = tensor_ext.index_map %max affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<4x8xf32> -> tensor<4x8x8xf32>
  %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<4x8x8xf32>
  %e = tensor_ext.elementwise %shifted : tensor<4x8x8xf32> -> tensor<4x8x8xf32> (%0: f32) {
    %1 = math.exp %0 fastmath<reassoc> : f32
    tensor_ext.yield %1 : f32
  }
  %sum = tensor_ext.reduce {arith.addf} %e dims [2] : tensor<4x8x8xf32> -> tensor<4x8xf32>
  %sum_1 = tensor_ext.index_map %sum affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<4x8xf32> -> tensor<4x8x8xf32>
  %p = tensor_ext.elementwise %e, %sum_1 : tensor<4x8x8xf32>, tensor<4x8x8xf32> -> tensor<4x8x8xf32> (%2: f32, %3: f32) {
    %4 = arith.divf %2, %3 fastmath<reassoc> : f32
    tensor_ext.yield %4 : f32
  }
  %c = tensor_ext.index_map %p affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)> : tensor<4x8x8xf32> -> tensor<4x8x16x8xf32>
  %d = tensor_ext.index_map %v affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)> : tensor<4x8x16xf32> -> tensor<4x8x16x8xf32>
  %cd = tensor_ext.elementwise {arith.mulf} %c, %d : tensor<4x8x16x8xf32>
  %o = tensor_ext.reduce {arith.addf} %cd dims [3] : tensor<4x8x16x8xf32> -> tensor<4x8x16xf32>
  %flat = tensor_ext.index_map %o affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)> : tensor<4x8x16xf32> -> tensor<8x64xf32>
  func.return %flat : tensor<8x64xf32>
}
