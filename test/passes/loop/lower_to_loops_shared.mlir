// RUN: deplodock-opt %s -p lower-to-loops --split-input-file | filecheck %s

// Kernels that differ in names and in the order of operands and operations are one function, called for each.
// CHECK-LABEL: func.func @main
// CHECK:         func.call @k_a(%x, %w, %[[A:.*]]) :
// CHECK:         func.call @k_a(%[[A]], %x, %{{.*}}) :
// CHECK:       func.func @k_a(%x0: memref<4xf32>, %w0: memref<4xf32>, %out: memref<4xf32>)
// CHECK-NOT:   func.func
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %a = tensor_ext.kernel @k_a(%x0 = %x : tensor<4xf32>, %w0 = %w : tensor<4xf32>) -> tensor<4xf32> {
    %e = tensor_ext.elementwise {math.exp} %x0 : tensor<4xf32>
    %n = tensor_ext.elementwise {arith.negf} %w0 : tensor<4xf32>
    %y = tensor_ext.elementwise {arith.divf} %e, %n : tensor<4xf32>
    tensor_ext.yield %y : tensor<4xf32>
  }
  %b = tensor_ext.kernel @k_b(%u = %x : tensor<4xf32>, %v = %a : tensor<4xf32>) -> tensor<4xf32> {
    %n = tensor_ext.elementwise {arith.negf} %u : tensor<4xf32>
    %e = tensor_ext.elementwise {math.exp} %v : tensor<4xf32>
    %z = tensor_ext.elementwise {arith.divf} %e, %n : tensor<4xf32>
    tensor_ext.yield %z : tensor<4xf32>
  }
  func.return %b : tensor<4xf32>
}

// -----

// Constants that compare equal but are not, other shapes, swapped operands and attributes are other functions.
// CHECK-LABEL: func.func @main
// CHECK:       func.func @k_zero(
// CHECK:       func.func @k_minus_zero(
// CHECK:       func.func @k_long(
// CHECK:       func.func @k_sub(
// CHECK:       func.func @k_self(
// CHECK:       func.func @k_scheduled({{.*}} attributes {deplodock.schedule = "tileify"}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %l: tensor<5xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = tensor_ext.kernel @k_zero(%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %c = arith.constant dense<0.0> : tensor<4xf32>
    %r = tensor_ext.elementwise {arith.addf} %a, %c : tensor<4xf32>
    tensor_ext.yield %r : tensor<4xf32>
  }
  %1 = tensor_ext.kernel @k_minus_zero(%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %c = arith.constant dense<-0.0> : tensor<4xf32>
    %r = tensor_ext.elementwise {arith.addf} %a, %c : tensor<4xf32>
    tensor_ext.yield %r : tensor<4xf32>
  }
  %2 = tensor_ext.kernel @k_long(%a = %l : tensor<5xf32>) -> tensor<5xf32> {
    %c = arith.constant dense<0.0> : tensor<5xf32>
    %r = tensor_ext.elementwise {arith.addf} %a, %c : tensor<5xf32>
    tensor_ext.yield %r : tensor<5xf32>
  }
  %3 = tensor_ext.kernel @k_sub(%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> tensor<4xf32> {
    %r = tensor_ext.elementwise {arith.subf} %a, %b : tensor<4xf32>
    tensor_ext.yield %r : tensor<4xf32>
  }
  %4 = tensor_ext.kernel @k_self(%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %r = tensor_ext.elementwise {arith.subf} %a, %a : tensor<4xf32>
    tensor_ext.yield %r : tensor<4xf32>
  }
  %5 = tensor_ext.kernel @k_scheduled(%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> tensor<4xf32> attributes {deplodock.schedule = "tileify"} {
    %r = tensor_ext.elementwise {arith.subf} %a, %b : tensor<4xf32>
    tensor_ext.yield %r : tensor<4xf32>
  }
  func.return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
