// What does not fit together is one message that names the operation.
// RUN: deplodock-opt %s -p decompose --split-input-file --verify-diagnostics --allow-unregistered-dialect | filecheck %s

// CHECK: torch.aten.add.Tensor: shapes [3] and [4] do not broadcast
func.func @broadcast(%x: tensor<3xf32>, %y: tensor<4xf32>) -> tensor<3xf32> {
  %0 = torch.aten.add.Tensor %x, %y : tensor<3xf32>, tensor<4xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: torch.aten.exp: the operands and attributes give a result of type tensor<4xf32>, not tensor<5xf32>
func.func @result(%x: tensor<4xf32>) -> tensor<5xf32> {
  %0 = torch.aten.exp %x : tensor<4xf32> -> tensor<5xf32>
  func.return %0 : tensor<5xf32>
}

// -----

// CHECK: torch.aten.softmax.int: dimension 2 is out of range for rank 2
func.func @dimension(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = torch.aten.softmax.int %x {dim = 2} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}

// -----

// CHECK: torch.aten.matmul: the inner dimensions 4 and 3 differ
func.func @inner(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = torch.aten.matmul %x, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %0 : tensor<3x4xf32>
}

// -----

// CHECK: torch.aten.amax: the maximum of no elements is not defined
func.func @empty(%x: tensor<3x0xf32>) -> tensor<3xf32> {
  %0 = torch.aten.amax %x {dim = [1]} : tensor<3x0xf32> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}

// -----

// CHECK: no decomposition of torch.aten.lgamma, torch.aten.logcumsumexp
func.func @unknown(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "torch.aten.logcumsumexp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "torch.aten.lgamma"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %1 : tensor<3xf32>
}
