// RUN: deplodock-opt %s -p form-kernels --split-input-file | filecheck %s

// A value that is returned and used is one more output of the kernel that uses it.
// CHECK-LABEL: func.func @intermediate
// CHECK-NEXT:    %[[A:.*]], %[[B:.*]] = tensor_ext.kernel @k_b(%{{.*}} = %x : tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
// CHECK:         func.return %[[B]], %[[A]]
func.func @intermediate(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tensor_ext.elementwise {arith.addf} %x, %x : tensor<4xf32>
  %b = tensor_ext.elementwise {arith.mulf} %a, %x : tensor<4xf32>
  func.return %b, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// So is the statistic of a row.
// CHECK-LABEL: func.func @row_statistic
// CHECK-NEXT:    %{{.*}}, %{{.*}} = tensor_ext.kernel @k_y(%{{.*}} = %x : tensor<4x8xf32>) -> tensor<4xf32>, tensor<4x8xf32> {
// CHECK-NOT:     tensor_ext.kernel
func.func @row_statistic(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %maxb = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<4xf32> -> tensor<4x8xf32>
  %y = tensor_ext.elementwise {arith.subf} %x, %maxb : tensor<4x8xf32>
  func.return %y, %max : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Returned values that share a producer at the same points are outputs of one kernel.
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT:    %{{.*}}, %{{.*}} = tensor_ext.kernel @k_z(%{{.*}} = %x : tensor<4xf32>) -> tensor<4xf32>, tensor<4xf32> {
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {math.exp}
// CHECK-NOT:     math.exp
func.func @siblings(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  %y = tensor_ext.elementwise {arith.addf} %e, %x : tensor<4xf32>
  %z = tensor_ext.elementwise {arith.mulf} %e, %x : tensor<4xf32>
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// They are not where one waits for the other: %z needs whole rows of %y. The exponential they share is computed twice.
// CHECK-LABEL: func.func @waiting_siblings
// CHECK-NEXT:    %[[Y:.*]] = tensor_ext.kernel @k_y({{.*}} = %x : {{[^,]*}}) ->
// CHECK:           math.exp
// CHECK:         %{{.*}} = tensor_ext.kernel @k_z({{.*}} = %x : {{.*}} = %[[Y]] : {{.*}})
// CHECK:           math.exp
func.func @waiting_siblings(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<4x4xf32>
  %y = tensor_ext.elementwise {arith.addf} %e, %x : tensor<4x4xf32>
  %s = tensor_ext.reduce {arith.addf} %y dims [1] : tensor<4x4xf32> -> tensor<4xf32>
  %t = tensor_ext.index_map %s affine_map<(d0, d1) -> (d1)> : tensor<4xf32> -> tensor<4x4xf32>
  %z = tensor_ext.elementwise {arith.mulf} %e, %t : tensor<4x4xf32>
  func.return %y, %z : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A cheap value is computed in each of two kernels, at different points; the argument is read twice.
// CHECK-LABEL: func.func @cheap_shared
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_rows(%{{.*}} = %x : tensor<4x8xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {arith.addf}
// CHECK:         tensor_ext.kernel @k_columns(%{{.*}} = %x : tensor<4x8xf32>) -> tensor<8xf32> {
// CHECK-NEXT:      %{{.*}} = tensor_ext.elementwise {arith.addf}
func.func @cheap_shared(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>) {
  %a = tensor_ext.elementwise {arith.addf} %x, %x : tensor<4x8xf32>
  %rows = tensor_ext.reduce {arith.addf} %a dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %columns = tensor_ext.reduce {arith.addf} %a dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  func.return %rows, %columns : tensor<4xf32>, tensor<8xf32>
}

// -----

// C++ keeps names with two underscores in a row for itself.
// CHECK-LABEL: func.func @underscores
// CHECK-NEXT:    %{{.*}} = tensor_ext.kernel @k_to_copy(
func.func @underscores(%x: tensor<4xf32>) -> tensor<4xf64> {
  %__to_copy = tensor_ext.elementwise {arith.extf} %x : tensor<4xf32> -> tensor<4xf64>
  func.return %__to_copy : tensor<4xf64>
}

// -----

// Single numbers that do not wait for each other are one launch.
// CHECK-LABEL: func.func @counters
// CHECK:         %n, %m = tensor_ext.kernel @k_m(%a_1 = %a : tensor<i64>, %b_1 = %b : tensor<i64>) -> tensor<i64>, tensor<i64> {
// CHECK-NOT:     tensor_ext.kernel
// CHECK:         func.return %n, %m
func.func @counters(%a: tensor<i64>, %b: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
  %n = tensor_ext.elementwise {arith.addi} %a, %a : tensor<i64>
  %m = tensor_ext.elementwise {arith.addi} %b, %b : tensor<i64>
  func.return %n, %m : tensor<i64>, tensor<i64>
}

// -----

// One waits for a sum of what the other gives.
// CHECK-LABEL: func.func @waits
// CHECK:         tensor_ext.kernel @k_n(
// CHECK:         tensor_ext.kernel @k_sum(
// CHECK:         tensor_ext.kernel @k_m(
func.func @waits(%a: tensor<f32>, %x: tensor<2000000xf32>) -> (tensor<f32>, tensor<f32>) {
  %n = tensor_ext.elementwise {arith.mulf} %a, %a attributes {deplodock.fuse = "never"} : tensor<f32>
  %s = tensor_ext.index_map %n affine_map<(d0) -> ()> : tensor<f32> -> tensor<2000000xf32>
  %y = tensor_ext.elementwise {arith.mulf} %x, %s : tensor<2000000xf32>
  %sum = tensor_ext.reduce {arith.addf} %y dims [0] attributes {deplodock.fuse = "never"} : tensor<2000000xf32> -> tensor<f32>
  %m = tensor_ext.elementwise {arith.addf} %sum, %a : tensor<f32>
  func.return %n, %m : tensor<f32>, tensor<f32>
}
