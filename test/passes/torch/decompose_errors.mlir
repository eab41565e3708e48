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

// -----

// CHECK: torch.aten.pad: mode 'reflect' does not pad 3 elements by 3 and 0
func.func @reflect(%x: tensor<3xf32>) -> tensor<6xf32> {
  %0 = torch.aten.pad %x {pad = [3, 0], mode = "reflect"} : tensor<3xf32> -> tensor<6xf32>
  func.return %0 : tensor<6xf32>
}

// -----

// CHECK: torch.aten.pad: mode 'mirror' does not pad 3 elements by 1 and 0
func.func @mode(%x: tensor<3xf32>) -> tensor<4xf32> {
  %0 = torch.aten.pad %x {pad = [1, 0], mode = "mirror"} : tensor<3xf32> -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// CHECK: torch.aten.convolution: a weight of shape [3, 2, 1] does not fall into 2 groups
func.func @groups(%x: tensor<1x3x4xf32>, %w: tensor<3x2x1xf32>) -> tensor<1x4x4xf32> {
  %0 = torch.aten.convolution %x, %w {stride = [1], padding = [0], dilation = [1], transposed = true, output_padding = [0], groups = 2} : tensor<1x3x4xf32>, tensor<3x2x1xf32> -> tensor<1x4x4xf32>
  func.return %0 : tensor<1x4x4xf32>
}
