// Every form of the tensor_ext operations survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @elementwise_short
func.func @elementwise_short(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %c: tensor<4x8xi1>) {
  // CHECK-NEXT: %sum = tensor_ext.elementwise {arith.addf} %x, %y : tensor<4x8xf32>
  %sum = tensor_ext.elementwise {arith.addf} %x, %y : tensor<4x8xf32>
  // CHECK-NEXT: %root = tensor_ext.elementwise {math.rsqrt} %sum : tensor<4x8xf32>
  %root = tensor_ext.elementwise {math.rsqrt} %sum : tensor<4x8xf32>
  // CHECK-NEXT: %pick = tensor_ext.elementwise {arith.select} %c, %x, %y : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %pick = tensor_ext.elementwise {arith.select} %c, %x, %y : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %wide = tensor_ext.elementwise {arith.extf} %x : tensor<4x8xf32> -> tensor<4x8xf64>
  %wide = tensor_ext.elementwise {arith.extf} %x : tensor<4x8xf32> -> tensor<4x8xf64>
  // CHECK-NEXT: %same = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<4x8xf32>
  %same = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %{{.*}} = tensor_ext.elementwise {arith.addf} %x, %y attributes {tag = "kept"} : tensor<4x8xf32>
  %tagged = tensor_ext.elementwise {arith.addf} %x, %y attributes {tag = "kept"} : tensor<4x8xf32>
  func.return
}

// -----

// A body that is one property-less operation on its arguments in order prints short, any other in full.
// CHECK-LABEL: func.func @elementwise_region
func.func @elementwise_region(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // CHECK-NEXT: %short = tensor_ext.elementwise {arith.subf} %x, %y : tensor<4xf32>
  %short = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> (%a: f32, %b: f32) {
    %d = arith.subf %a, %b : f32
    tensor_ext.yield %d : f32
  }
  // CHECK-NEXT: %swapped = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> (%a: f32, %b: f32) {
  // CHECK-NEXT:   %d = arith.subf %b, %a : f32
  // CHECK-NEXT:   tensor_ext.yield %d : f32
  // CHECK-NEXT: }
  %swapped = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> (%a: f32, %b: f32) {
    %d = arith.subf %b, %a : f32
    tensor_ext.yield %d : f32
  }
  // CHECK-NEXT: %fast = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> (%a_1: f32, %b_1: f32) {
  // CHECK-NEXT:   arith.subf %a_1, %b_1 fastmath<fast> : f32
  %fast = tensor_ext.elementwise %x, %y : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32> (%a: f32, %b: f32) {
    %d = arith.subf %a, %b fastmath<fast> : f32
    tensor_ext.yield %d : f32
  }
  // CHECK:      %noted = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%[[N:.*]]: f32) {
  // CHECK-NEXT:   math.exp %[[N]] {note} : f32
  %noted = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xf32> (%a: f32) {
    %d = math.exp %a {note} : f32
    tensor_ext.yield %d : f32
  }
  // CHECK:      %less, %more = tensor_ext.elementwise %x, %y attributes {tag = 1 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>, tensor<4xf32> (%[[A:.*]]: f32, %[[B:.*]]: f32) {
  // CHECK-NEXT:   %[[C:.*]] = arith.cmpf olt, %[[A]], %[[B]] : f32
  // CHECK-NEXT:   tensor_ext.yield %[[C]], %[[B]] : i1, f32
  %less, %more = tensor_ext.elementwise %x, %y attributes {tag = 1 : i64} : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>, tensor<4xf32> (%a: f32, %b: f32) {
    %c = arith.cmpf olt, %a, %b : f32
    tensor_ext.yield %c, %b : i1, f32
  }
  // CHECK:      %ones = tensor_ext.elementwise : -> tensor<4xf32> () {
  // CHECK-NEXT:   %one = arith.constant 1.000000e+00 : f32
  %ones = tensor_ext.elementwise : -> tensor<4xf32> () {
    %one = arith.constant 1.0 : f32
    tensor_ext.yield %one : f32
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: tensor<4x8x2xf32>, %n: tensor<4x8x2xi64>) {
  // CHECK-NEXT: %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4x8x2xf32> -> tensor<4x2xf32>
  %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4x8x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: %all = tensor_ext.reduce {arith.maximumf} %x dims [0, 1, 2] : tensor<4x8x2xf32> -> tensor<f32>
  %all = tensor_ext.reduce {arith.maximumf} %x dims [0, 1, 2] : tensor<4x8x2xf32> -> tensor<f32>
  // CHECK-NEXT: %none = tensor_ext.reduce {arith.maxsi} %n dims [] : tensor<4x8x2xi64> -> tensor<4x8x2xi64>
  %none = tensor_ext.reduce {arith.maxsi} %n dims [] : tensor<4x8x2xi64> -> tensor<4x8x2xi64>
  // CHECK-NEXT: %s, %m = tensor_ext.reduce {arith.addf, arith.minsi} %x, %n dims [0, 2] attributes {tag} : tensor<4x8x2xf32>, tensor<4x8x2xi64> -> tensor<8xf32>, tensor<8xi64>
  %s, %m = tensor_ext.reduce {arith.addf, arith.minsi} %x, %n dims [0, 2] attributes {tag} : tensor<4x8x2xf32>, tensor<4x8x2xi64> -> tensor<8xf32>, tensor<8xi64>
  // CHECK-NEXT: %best, %at = tensor_ext.reduce %x, %n dims [1] : tensor<4x8x2xf32>, tensor<4x8x2xi64> -> tensor<4x2xf32>, tensor<4x2xi64> combine (%v0: f32, %i0: i64, %v1: f32, %i1: i64) identity [0xff800000 : f32, 0 : i64] {
  // CHECK-NEXT:   %less = arith.cmpf olt, %v0, %v1 : f32
  // CHECK-NEXT:   %v = arith.select %less, %v1, %v0 : f32
  // CHECK-NEXT:   %i = arith.select %less, %i1, %i0 : i64
  // CHECK-NEXT:   tensor_ext.yield %v, %i : f32, i64
  // CHECK-NEXT: }
  %best, %at = tensor_ext.reduce %x, %n dims [1] : tensor<4x8x2xf32>, tensor<4x8x2xi64> -> tensor<4x2xf32>, tensor<4x2xi64> combine (%v0: f32, %i0: i64, %v1: f32, %i1: i64) identity [0xff800000 : f32, 0 : i64] {
    %less = arith.cmpf olt, %v0, %v1 : f32
    %v = arith.select %less, %v1, %v0 : f32
    %i = arith.select %less, %i1, %i0 : i64
    tensor_ext.yield %v, %i : f32, i64
  }
  // Another identity than the operation's own is printed.
  // CHECK-NEXT: %odd = tensor_ext.reduce %x dims [2] : tensor<4x8x2xf32> -> tensor<4x8xf32> combine (%{{.*}}: f32, %{{.*}}: f32) identity [1.000000e+00 : f32] {
  %odd = tensor_ext.reduce %x dims [2] : tensor<4x8x2xf32> -> tensor<4x8xf32> combine (%a: f32, %b: f32) identity [1.0 : f32] {
    %c = arith.addf %a, %b : f32
    tensor_ext.yield %c : f32
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @index_map
func.func @index_map(%w: tensor<8xf32>, %x: tensor<4x8xf32>) {
  // CHECK-NEXT: %row = tensor_ext.index_map %w affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<4x8xf32>
  %row = tensor_ext.index_map %w affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %flat = tensor_ext.index_map %x affine_map<(d0) -> ((d0 floordiv 8), (d0 mod 8))> {tag = "kept"} : tensor<4x8xf32> -> tensor<32xf32>
  %flat = tensor_ext.index_map %x affine_map<(d0) -> (d0 floordiv 8, d0 mod 8)> {tag = "kept"} : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK-NEXT: %one = tensor_ext.index_map %w affine_map<() -> (3)> : tensor<8xf32> -> tensor<f32>
  %one = tensor_ext.index_map %w affine_map<() -> (3)> : tensor<8xf32> -> tensor<f32>
  func.return
}

// -----

// CHECK-LABEL: func.func @kernel
func.func @kernel(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  // CHECK-NEXT: %a, %b = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>, %y0 = %y : tensor<4xf32>) -> tensor<4xf32>, tensor<f32> attributes {tag = "kept"} {
  // CHECK-NEXT:   %sum = tensor_ext.elementwise {arith.addf} %x0, %y0 : tensor<4xf32>
  // CHECK-NEXT:   %all = tensor_ext.reduce {arith.addf} %sum dims [0] : tensor<4xf32> -> tensor<f32>
  // CHECK-NEXT:   tensor_ext.yield %sum, %all : tensor<4xf32>, tensor<f32>
  // CHECK-NEXT: }
  %a, %b = tensor_ext.kernel @k(%x0 = %x : tensor<4xf32>, %y0 = %y : tensor<4xf32>) -> tensor<4xf32>, tensor<f32> attributes {tag = "kept"} {
    %sum = tensor_ext.elementwise {arith.addf} %x0, %y0 : tensor<4xf32>
    %all = tensor_ext.reduce {arith.addf} %sum dims [0] : tensor<4xf32> -> tensor<f32>
    tensor_ext.yield %sum, %all : tensor<4xf32>, tensor<f32>
  }
  // CHECK-NEXT: %zeros = tensor_ext.kernel @zeros() -> tensor<4xf32> {
  // CHECK-NEXT:   %z = arith.constant dense<0.000000e+00> : tensor<4xf32>
  // CHECK-NEXT:   tensor_ext.yield {last} %z : tensor<4xf32>
  %zeros = tensor_ext.kernel @zeros() -> tensor<4xf32> {
    %z = arith.constant dense<0.0> : tensor<4xf32>
    tensor_ext.yield {last} %z : tensor<4xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<f32>
}

// -----

// Generic text is read too; identities and dims are properties.
// CHECK-LABEL: func.func @generic
func.func @generic(%x: tensor<4x8xf32>) {
  // CHECK-NEXT: %r = tensor_ext.reduce {arith.mulf} %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  %r = "tensor_ext.reduce"(%x) <{dims = array<i64: 0>, identities = [1.0 : f32]}> ({
  ^bb0(%a: f32, %b: f32):
    %c = "arith.mulf"(%a, %b) : (f32, f32) -> f32
    "tensor_ext.yield"(%c) : (f32) -> ()
  }) : (tensor<4x8xf32>) -> tensor<8xf32>
  func.return
}

// CHECK-LABEL: func.func @scan
func.func @scan(%x: tensor<4x8xf32>, %n: tensor<4x8xi64>) {
  // CHECK-NEXT: %sums = tensor_ext.scan {arith.addf} %x dim 1 : tensor<4x8xf32>
  %sums = tensor_ext.scan {arith.addf} %x dim 1 : tensor<4x8xf32>
  // CHECK-NEXT: %before = tensor_ext.scan {arith.addi} %n dim 0 exclusive reverse attributes {tag} : tensor<4x8xi64>
  %before = tensor_ext.scan {arith.addi} %n dim 0 exclusive reverse attributes {tag} : tensor<4x8xi64>
  // CHECK-NEXT: %s, %m = tensor_ext.scan {arith.addf, arith.minsi} %x, %n dim 1 reverse : tensor<4x8xf32>, tensor<4x8xi64>
  %s, %m = tensor_ext.scan {arith.addf, arith.minsi} %x, %n dim 1 reverse : tensor<4x8xf32>, tensor<4x8xi64>
  // CHECK-NEXT: %last = tensor_ext.scan %x dim 0 : tensor<4x8xf32> combine (%a: f32, %b: f32) identity [0.{{0*e.00|0}} : f32] {
  // CHECK-NEXT:   tensor_ext.yield %b : f32
  %last = tensor_ext.scan %x dim 0 : tensor<4x8xf32> combine (%a: f32, %b: f32) identity [0.0 : f32] {
    tensor_ext.yield %b : f32
  }
  func.return
}
