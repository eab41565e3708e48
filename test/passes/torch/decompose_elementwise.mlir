// Elementwise operations become one or a few tensor_ext.elementwise; broadcasts and numbers become explicit.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// CHECK-LABEL: func.func @unary
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
// CHECK-NEXT:    %[[L:.*]] = tensor_ext.elementwise {math.log} %[[E]] : tensor<4xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.elementwise {math.sqrt} %[[L]] : tensor<4xf32>
// CHECK-NEXT:    %[[R:.*]] = tensor_ext.elementwise {math.rsqrt} %[[S]] : tensor<4xf32>
// CHECK-NEXT:    %[[T:.*]] = tensor_ext.elementwise {math.tanh} %[[R]] : tensor<4xf32>
// CHECK-NEXT:    %[[N:.*]] = tensor_ext.elementwise {arith.negf} %[[T]] : tensor<4xf32>
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.elementwise {math.absf} %[[N]] : tensor<4xf32>
// CHECK-NEXT:    func.return %[[A]]
func.func @unary(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = torch.aten.exp %x : tensor<4xf32> -> tensor<4xf32>
  %l = torch.aten.log %e : tensor<4xf32> -> tensor<4xf32>
  %s = torch.aten.sqrt %l : tensor<4xf32> -> tensor<4xf32>
  %r = torch.aten.rsqrt %s : tensor<4xf32> -> tensor<4xf32>
  %t = torch.aten.tanh %r : tensor<4xf32> -> tensor<4xf32>
  %n = torch.aten.neg %t : tensor<4xf32> -> tensor<4xf32>
  %a = torch.aten.abs %n : tensor<4xf32> -> tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// Relu is a maximum that propagates NaN.
// CHECK-LABEL: func.func @relu
// CHECK-NEXT:    %[[Z0:.*]] = arith.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[Z:.*]] = tensor_ext.index_map %[[Z0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %relu = tensor_ext.elementwise {arith.maximumf} %x, %[[Z]] : tensor<4xf32>
func.func @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %relu = torch.aten.relu %x : tensor<4xf32> -> tensor<4xf32>
  func.return %relu : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @sigmoid
// CHECK-NEXT:    %[[ONE0:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[ONE:.*]] = tensor_ext.index_map %[[ONE0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %neg = tensor_ext.elementwise {arith.negf} %x : tensor<4xf32>
// CHECK-NEXT:    %exp = tensor_ext.elementwise {math.exp} %neg : tensor<4xf32>
// CHECK-NEXT:    %denominator = tensor_ext.elementwise {arith.addf} %[[ONE]], %exp : tensor<4xf32>
// CHECK-NEXT:    %sigmoid = tensor_ext.elementwise {arith.divf} %[[ONE]], %denominator : tensor<4xf32>
func.func @sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %sigmoid = torch.aten.sigmoid %x : tensor<4xf32> -> tensor<4xf32>
  func.return %sigmoid : tensor<4xf32>
}

// -----

// Both operands broadcast.
// CHECK-LABEL: func.func @broadcast
// CHECK-NEXT:    %[[X:.*]] = tensor_ext.index_map %x affine_map<(d0, d1) -> (d0, 0)> : tensor<3x1xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %[[Y:.*]] = tensor_ext.index_map %y affine_map<(d0, d1) -> (d1)> : tensor<4xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %add = tensor_ext.elementwise {arith.addf} %[[X]], %[[Y]] : tensor<3x4xf32>
func.func @broadcast(%x: tensor<3x1xf32>, %y: tensor<4xf32>) -> tensor<3x4xf32> {
  %add = torch.aten.add.Tensor %x, %y : tensor<3x1xf32>, tensor<4xf32> -> tensor<3x4xf32>
  func.return %add : tensor<3x4xf32>
}

// -----

// A number is a splat; alpha scales the second operand.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT:    %[[THREE0:.*]] = arith.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[THREE:.*]] = tensor_ext.index_map %[[THREE0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.elementwise {arith.mulf} %x, %[[THREE]] : tensor<4xf32>
// CHECK-NEXT:    %[[TWO0:.*]] = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[TWO:.*]] = tensor_ext.index_map %[[TWO0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %scaled = tensor_ext.elementwise {arith.mulf} %[[M]], %[[TWO]] : tensor<4xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.elementwise {arith.subf} %x, %scaled : tensor<4xf32>
// CHECK-NEXT:    %[[ONE0:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[ONE:.*]] = tensor_ext.index_map %[[ONE0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %[[R:.*]] = tensor_ext.elementwise {arith.subf} %[[ONE]], %[[S]] : tensor<4xf32>
func.func @numbers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %m = torch.aten.mul.Tensor %x {other = 3} : tensor<4xf32> -> tensor<4xf32>
  %s = torch.aten.sub.Tensor %x, %m {alpha = 2} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %r = torch.aten.rsub.Scalar %s {other = 1} : tensor<4xf32> -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

// Integers use integer arithmetic.
// CHECK-LABEL: func.func @integers
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.elementwise {arith.addi} %x, %y : tensor<4xi32>
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.elementwise {arith.maxsi} %[[A]], %y : tensor<4xi32>
// CHECK-NEXT:    %[[Z0:.*]] = arith.constant dense<0> : tensor<i32>
// CHECK-NEXT:    %[[Z:.*]] = tensor_ext.index_map %[[Z0]] affine_map<(d0) -> ()> : tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %[[N:.*]] = tensor_ext.elementwise {arith.subi} %[[Z]], %[[M]] : tensor<4xi32>
// CHECK-NEXT:    %[[P2:.*]] = tensor_ext.elementwise {arith.muli} %[[N]], %[[N]] : tensor<4xi32>
// CHECK-NEXT:    %[[P4:.*]] = tensor_ext.elementwise {arith.muli} %[[P2]], %[[P2]] : tensor<4xi32>
// CHECK-NEXT:    %[[P5:.*]] = tensor_ext.elementwise {arith.muli} %[[N]], %[[P4]] : tensor<4xi32>
// CHECK-NEXT:    func.return %[[P5]]
func.func @integers(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %a = torch.aten.add.Tensor %x, %y : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %m = torch.aten.maximum %a, %y : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  %n = torch.aten.neg %m : tensor<4xi32> -> tensor<4xi32>
  %p = torch.aten.pow.Tensor_Scalar %n {exponent = 5} : tensor<4xi32> -> tensor<4xi32>
  func.return %p : tensor<4xi32>
}

// -----

// Powers follow PyTorch's own special cases.
// CHECK-LABEL: func.func @powers
// CHECK-NEXT:    %[[SQ:.*]] = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<4xf32>
// CHECK-NEXT:    %[[RT:.*]] = tensor_ext.elementwise {math.sqrt} %x : tensor<4xf32>
// CHECK-NEXT:    %[[RR:.*]] = tensor_ext.elementwise {math.rsqrt} %x : tensor<4xf32>
// CHECK-NEXT:    %[[ONE0:.*]] = arith.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[ONE:.*]] = tensor_ext.index_map %[[ONE0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %[[RC:.*]] = tensor_ext.elementwise {arith.divf} %[[ONE]], %x : tensor<4xf32>
// CHECK-NEXT:    %[[E0:.*]] = arith.constant dense<2.500000e+00> : tensor<f32>
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.index_map %[[E0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.elementwise {math.powf} %x, %[[E]] : tensor<4xf32>
// CHECK-NEXT:    func.return %[[SQ]], %[[RT]], %[[RR]], %[[RC]], %[[P]]
func.func @powers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = torch.aten.pow.Tensor_Scalar %x {exponent = 2} : tensor<4xf32> -> tensor<4xf32>
  %1 = torch.aten.pow.Tensor_Scalar %x {exponent = 0.5} : tensor<4xf32> -> tensor<4xf32>
  %2 = torch.aten.pow.Tensor_Scalar %x {exponent = -0.5} : tensor<4xf32> -> tensor<4xf32>
  %3 = torch.aten.pow.Tensor_Scalar %x {exponent = -1} : tensor<4xf32> -> tensor<4xf32>
  %4 = torch.aten.pow.Tensor_Scalar %x {exponent = 2.5} : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @casts
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise {arith.sitofp} %i : tensor<4xi64> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise {arith.extf} %x : tensor<4xf32> -> tensor<4xf64>
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise {arith.uitofp} %b : tensor<4xi1> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise %x : tensor<4xf32> -> tensor<4xi1> (%[[X:.*]]: f32) {
// CHECK-NEXT:      %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[C:.*]] = arith.cmpf une, %[[X]], %[[Z]] : f32
// CHECK-NEXT:      tensor_ext.yield %[[C]] : i1
func.func @casts(%x: tensor<4xf32>, %i: tensor<4xi64>, %b: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xf64>, tensor<4xf32>, tensor<4xi1>) {
  %0 = torch.aten._to_copy %i {dtype = f32} : tensor<4xi64> -> tensor<4xf32>
  %1 = torch.aten._to_copy %x {dtype = f64} : tensor<4xf32> -> tensor<4xf64>
  %2 = torch.aten._to_copy %b {dtype = f32} : tensor<4xi1> -> tensor<4xf32>
  %3 = torch.aten._to_copy %x {dtype = i1} : tensor<4xf32> -> tensor<4xi1>
  func.return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf64>, tensor<4xf32>, tensor<4xi1>
}

// -----

// A fused multiply-add rounds once; one factor may be a number.
// CHECK-LABEL: func.func @fma
// CHECK:         tensor_ext.elementwise {math.fma} %a, %{{.*}}, %c : tensor<4xf32>
// CHECK:         tensor_ext.elementwise {math.fma} %{{.*}}, %{{.*}}, %a : tensor<4xf32>
func.func @fma(%a: tensor<4xf32>, %b: tensor<f32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %0 = torch.prims.fma %a, %b, %c : tensor<4xf32>, tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = torch.prims.fma %0, %a {b = 2.0} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
