// Reads at computed positions become gathers, views become index maps, and what is joined a concat.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// CHECK-LABEL: func.func @embedding
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.index_map %i affine_map<(d0, d1, d2) -> (d0, d1)> : tensor<2x3xi64> -> tensor<2x3x4xi64>
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.gather %w at %[[I]] affine_map<(d0, d1, d2)[s0] -> (s0, d2)> : tensor<9x4xf32> at tensor<2x3x4xi64> -> tensor<2x3x4xf32>
// CHECK-NEXT:    func.return %[[E]]
func.func @embedding(%w: tensor<9x4xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x4xf32> {
  %0 = torch.aten.embedding %w, %i : tensor<9x4xf32>, tensor<2x3xi64> -> tensor<2x3x4xf32>
  func.return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @gather
// CHECK-NEXT:    tensor_ext.gather %x at %i affine_map<(d0, d1)[s0] -> (d0, s0)> : tensor<3x4xf32> at tensor<3x2xi64> -> tensor<3x2xf32>
func.func @gather(%x: tensor<3x4xf32>, %i: tensor<3x2xi64>) -> tensor<3x2xf32> {
  %0 = torch.aten.gather %x, %i {dim = 1} : tensor<3x4xf32>, tensor<3x2xi64> -> tensor<3x2xf32>
  func.return %0 : tensor<3x2xf32>
}

// -----

// Negative indices count from the end.
// CHECK-LABEL: func.func @index
// CHECK:         %wrapped = tensor_ext.elementwise {arith.select} %{{.*}}, %shifted, %i : tensor<2xi1>, tensor<2xi64>, tensor<2xi64> -> tensor<2xi64>
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.index_map %wrapped affine_map<(d0, d1) -> (d1)> : tensor<2xi64> -> tensor<3x2xi64>
// CHECK-NEXT:    tensor_ext.gather %x at %[[I]] affine_map<(d0, d1)[s0] -> (d0, s0)> : tensor<3x4xf32> at tensor<3x2xi64> -> tensor<3x2xf32>
func.func @index(%x: tensor<3x4xf32>, %i: tensor<2xi64>) -> tensor<3x2xf32> {
  %0 = torch.aten.index.Tensor %x, %i {indices = [-1, 0]} : tensor<3x4xf32>, tensor<2xi64> -> tensor<3x2xf32>
  func.return %0 : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: func.func @views
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1) -> (d0, ((d1 * 2) + 1))> : tensor<3x8xf32> -> tensor<3x3xf32>
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1) -> (((d0 * -1) + 2), d1)> : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0) -> (2, d0)> : tensor<3x8xf32> -> tensor<8xf32>
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1) -> (d0, ((d1 + 7) mod 8))> : tensor<3x8xf32> -> tensor<3x8xf32>
// CHECK-NEXT:    tensor_ext.index_map %x affine_map<(d0, d1) -> ((d0 floordiv 2), d1)> : tensor<3x8xf32> -> tensor<6x8xf32>
func.func @views(%x: tensor<3x8xf32>) -> (tensor<3x3xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<3x8xf32>, tensor<6x8xf32>) {
  %0 = torch.aten.slice.Tensor %x {dim = 1, start = 1, end = -1, step = 2} : tensor<3x8xf32> -> tensor<3x3xf32>
  %1 = torch.aten.flip %x {dims = [0]} : tensor<3x8xf32> -> tensor<3x8xf32>
  %2 = torch.aten.select.int %x {dim = 0, index = -1} : tensor<3x8xf32> -> tensor<8xf32>
  %3 = torch.aten.roll %x {shifts = [1], dims = [1]} : tensor<3x8xf32> -> tensor<3x8xf32>
  %4 = torch.aten.repeat_interleave.self_int %x {repeats = 2, dim = 0} : tensor<3x8xf32> -> tensor<6x8xf32>
  func.return %0, %1, %2, %3, %4 : tensor<3x3xf32>, tensor<3x8xf32>, tensor<8xf32>, tensor<3x8xf32>, tensor<6x8xf32>
}

// -----

// CHECK-LABEL: func.func @cat
// CHECK-NEXT:    %[[C:.*]] = tensor_ext.concat %x, %y dim 1 : tensor<3x1xf32>, tensor<3x2xf32> -> tensor<3x3xf32>
func.func @cat(%x: tensor<3x1xf32>, %y: tensor<3x2xf32>) -> tensor<3x3xf32> {
  %0 = torch.aten.cat %x, %y {dim = -1} : tensor<3x1xf32>, tensor<3x2xf32> -> tensor<3x3xf32>
  func.return %0 : tensor<3x3xf32>
}

// -----

// Outside of the tensor a pad reads some element of it and takes the constant instead.
// CHECK-LABEL: func.func @pad
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.iota dim 0 : tensor<6xi64>
// CHECK:         %[[R:.*]] = tensor_ext.index_map %x affine_map<(d0) -> (((d0 + 3) mod 4))> : tensor<4xf32> -> tensor<6xf32>
// CHECK:         tensor_ext.elementwise {arith.select} %inside, %[[R]], %{{.*}} : tensor<6xi1>, tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
func.func @pad(%x: tensor<4xf32>) -> tensor<6xf32> {
  %0 = torch.aten.constant_pad_nd %x {pad = [1, 1], value = 2} : tensor<4xf32> -> tensor<6xf32>
  func.return %0 : tensor<6xf32>
}
