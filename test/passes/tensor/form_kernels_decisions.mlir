// RUN: deplodock-opt %s -p form-kernels --split-input-file --verify-diagnostics 2>/dev/null | filecheck %s
// RUN: deplodock-opt %s -p form-kernels,form-kernels --split-input-file --verify-diagnostics 2>/dev/null | filecheck %s

// Decisions of a function stand for "deplodock.fuse" on all operations of their labels.
// CHECK-LABEL: func.func @decided({{.*}}) -> (tensor<4xf32>, tensor<4xf32>) attributes {deplodock.fusion = "exp-2dee6ec6=never"} {
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.kernel @k_a(
// CHECK-NEXT:      tensor_ext.elementwise {math.exp} %{{.*}} attributes {deplodock.fuse = "never"} : tensor<4xf32>
// CHECK:         tensor_ext.kernel @k_b({{.*}} = %[[A]] : tensor<4xf32>)
// CHECK:         %[[C:.*]] = tensor_ext.kernel @k_c(
// CHECK:         tensor_ext.kernel @k_d({{.*}} = %[[C]] : tensor<4xf32>)
func.func @decided(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {deplodock.fusion = "exp-2dee6ec6=never"} {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  %b = tensor_ext.elementwise {arith.negf} %a : tensor<4xf32>
  %c = tensor_ext.elementwise {math.exp} %y : tensor<4xf32>
  %d = tensor_ext.elementwise {arith.negf} %c : tensor<4xf32>
  func.return %b, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

// What a module has for functions is taken by those of its keys, and is gone then.
// CHECK:         builtin.module {
// CHECK-NEXT:      func.func @given({{.*}}) -> tensor<4xf32> attributes {deplodock.fusion = "exp-2dee6ec6=never", deplodock.tuned = "t.jsonl:1"} {
// CHECK-COUNT-2:     tensor_ext.kernel
// CHECK:           func.func @other({{.*}}) -> tensor<5xf32> {
// CHECK-NEXT:        tensor_ext.kernel
// CHECK-NOT:         tensor_ext.kernel
builtin.module attributes {deplodock.fusions = {program_7b5950abda6dbfe3 = {deplodock.fusion = "exp-2dee6ec6=never", deplodock.tuned = "t.jsonl:1"}}} {
  func.func @given(%x: tensor<4xf32>) -> tensor<4xf32> {
    %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
    %b = tensor_ext.elementwise {arith.negf} %a : tensor<4xf32>
    func.return %b : tensor<4xf32>
  }
  func.func @other(%x: tensor<5xf32>) -> tensor<5xf32> {
    %a = tensor_ext.elementwise {math.exp} %x : tensor<5xf32>
    %b = tensor_ext.elementwise {arith.negf} %a : tensor<5xf32>
    func.return %b : tensor<5xf32>
  }
}

// -----

// CHECK: func.func: deplodock.fusion decides exp-0, and no operation is that
func.func @nothing_has_the_label(%x: tensor<4xf32>) -> tensor<4xf32> attributes {deplodock.fusion = "exp-0=never"} {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: func.func: deplodock.fusion has words such as LABEL=never, LABEL=always, stream=always, each label once, not stream=often
func.func @no_decision(%x: tensor<4xf32>) -> tensor<4xf32> attributes {deplodock.fusion = "stream=often"} {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: func.func: deplodock.fusion has words such as {{.*}}, each label once, not exp-0=always
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> attributes {deplodock.fusion = "exp-0=never exp-0=always"} {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: func.func: deplodock.fusion must be text, not 1 : i64
func.func @number(%x: tensor<4xf32>) -> tensor<4xf32> attributes {deplodock.fusion = 1 : i64} {
  %a = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// The option "stream" can be decided, too.
// CHECK-LABEL: func.func @streamed
// CHECK-NEXT:    tensor_ext.kernel
// CHECK-NOT:     tensor_ext.kernel
func.func @streamed(%q: tensor<256x512xf32>, %k: tensor<256x512xf32>, %v: tensor<256x512xf32>) -> tensor<256x512xf32> attributes {deplodock.fusion = "stream=always"} {
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
