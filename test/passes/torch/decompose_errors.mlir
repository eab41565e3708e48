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

// CHECK: no decomposition of torch.aten.digamma, torch.aten.lgamma
func.func @unknown(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "torch.aten.digamma"(%x) : (tensor<3xf32>) -> tensor<3xf32>
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

// -----

// CHECK: torch.aten.gelu: approximate must be 'none' or 'tanh', not 'erf'
func.func @approximate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.gelu %x {approximate = "erf"} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK: torch.aten.scaled_dot_product_attention: attn_mask and is_causal exclude each other
func.func @mask(%q: tensor<2x4x8xf32>, %m: tensor<4x4xf32>) -> tensor<2x4x8xf32> {
  %y = torch.aten.scaled_dot_product_attention %q, %q, %q, %m {is_causal = true} : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<4x4xf32> -> tensor<2x4x8xf32>
  func.return %y : tensor<2x4x8xf32>
}

// -----

// CHECK: torch.aten.arange.start_step: arange from 0.5 by 1 does not give integers; cast a float one
func.func @steps() -> tensor<4xi64> {
  %y = torch.aten.arange.start_step {start = 0.5, end = 4, step = 1} : -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

// -----

// CHECK: torch.aten.div.Tensor_mode: rounding_mode must be 'floor' or 'trunc', not 'up'
func.func @mode(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.div.Tensor_mode %x, %x {rounding_mode = "up"} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK: torch.aten.div.Tensor_mode: true division needs floats; cast with torch.aten._to_copy
func.func @true_division(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = torch.aten.div.Tensor_mode %x, %x : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// CHECK: torch.aten.view.dtype: elements of f32 are not read as i16, only as a type of their width
func.func @bits(%x: tensor<4xf32>) -> tensor<4xi16> {
  %y = torch.aten.view.dtype %x {dtype = i16} : tensor<4xf32> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

// -----

// CHECK: torch.aten.adaptive_avg_pool1d: [0] elements do not fall into [2] parts
func.func @parts(%x: tensor<2x0xf32>) -> tensor<2x2xf32> {
  %y = torch.aten.adaptive_avg_pool1d %x {output_size = [2]} : tensor<2x0xf32> -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// CHECK: torch.aten.argmax: no elements have no extreme one
func.func @extreme(%x: tensor<2x0xf32>) -> tensor<2xi64> {
  %y = torch.aten.argmax %x {dim = 1} : tensor<2x0xf32> -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

// -----

// CHECK: torch.aten.pow.Tensor_Scalar: an integer cannot be raised to -1; cast to a float first
func.func @power(%x: tensor<2xi64>) -> tensor<2xi64> {
  %y = torch.aten.pow.Tensor_Scalar %x {exponent = -1} : tensor<2xi64> -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}

// -----

// CHECK: torch.aten.add.Tensor: 0.5 is no i64; cast the tensor with torch.aten._to_copy first
func.func @number(%x: tensor<2xi64>) -> tensor<2xi64> {
  %y = torch.aten.add.Tensor %x {other = 0.5} : tensor<2xi64> -> tensor<2xi64>
  func.return %y : tensor<2xi64>
}
