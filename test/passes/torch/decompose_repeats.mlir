// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// An element repeated is no larger: nothing is left to reduce, of however many repetitions.

// CHECK-LABEL: @repeated
// CHECK-NOT: tensor_ext.reduce
// CHECK: tensor_ext.index_map %x affine_map<(d0) -> (d0, 0)>
func.func @repeated(%x: tensor<50000x1xf32>) -> tensor<50000xf32> {
  %0 = torch.aten.expand %x {size = [50000, 50000]} : tensor<50000x1xf32> -> tensor<50000x50000xf32>
  %1 = torch.aten.amax %0 {dim = [1]} : tensor<50000x50000xf32> -> tensor<50000xf32>
  func.return %1 : tensor<50000xf32>
}

// -----

// The other dimensions are reduced; a sum counts repetitions.

// CHECK-LABEL: @others
// CHECK: tensor_ext.reduce {arith.minimumf} %x dims [0] : tensor<4x3xf32> -> tensor<3xf32>
// CHECK: tensor_ext.reduce {arith.addf} %{{.*}} dims [0, 1] : tensor<5x4x3xf32> -> tensor<3xf32>
func.func @others(%x: tensor<4x3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = torch.aten.expand %x {size = [5, 4, 3]} : tensor<4x3xf32> -> tensor<5x4x3xf32>
  %1 = torch.aten.amin %0 {dim = [0, 1]} : tensor<5x4x3xf32> -> tensor<3xf32>
  %2 = torch.aten.sum.dim_IntList %0 {dim = [0, 1]} : tensor<5x4x3xf32> -> tensor<3xf32>
  func.return %1, %2 : tensor<3xf32>, tensor<3xf32>
}
