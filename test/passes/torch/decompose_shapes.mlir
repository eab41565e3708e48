// Operations on shapes are index maps; those that change nothing disappear.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// CHECK-LABEL: func.func @permutations
// CHECK-NEXT:    %[[T:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d2, d1, d0)> : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d1, d2, d0)> : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT:    func.return %[[T]], %[[P]]
func.func @permutations(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<4x2x3xf32>) {
  %0 = torch.aten.transpose.int %x {dim0 = 0, dim1 = -1} : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
  %1 = torch.aten.permute %x {dims = [2, 0, 1]} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  func.return %0, %1 : tensor<4x3x2xf32>, tensor<4x2x3xf32>
}

// -----

// A kept dimension stays plain; -1 is what is left.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.index_map %x affine_map<(d0, d1) -> ((d0 floordiv 3), (d0 mod 3), d1)> : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.index_map %[[M]] affine_map<(d0, d1, d2) -> (((d0 * 3) + d1), d2)> : tensor<6x4xf32> -> tensor<2x3x4xf32>
// CHECK-NEXT:    %[[U:.*]] = tensor_ext.index_map %[[S]] affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)> : tensor<2x3x4xf32> -> tensor<2x1x3x4xf32>
// CHECK-NEXT:    %[[Q:.*]] = tensor_ext.index_map %[[U]] affine_map<(d0, d1, d2) -> (d0, 0, d1, d2)> : tensor<2x1x3x4xf32> -> tensor<2x3x4xf32>
// CHECK-NEXT:    func.return %[[Q]]
func.func @views(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = torch.aten.view %x {size = [-1, 4]} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = torch.aten._unsafe_view %0 {size = [2, 3, 4]} : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %2 = torch.aten.unsqueeze %1 {dim = -3} : tensor<2x3x4xf32> -> tensor<2x1x3x4xf32>
  %3 = torch.aten.squeeze.dim %2 {dim = 1} : tensor<2x1x3x4xf32> -> tensor<2x3x4xf32>
  func.return %3 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @expand
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (0, d2)> : tensor<1x4xf32> -> tensor<5x3x4xf32>
// CHECK-NEXT:    func.return %[[E]]
func.func @expand(%x: tensor<1x4xf32>) -> tensor<5x3x4xf32> {
  %0 = torch.aten.expand %x {size = [5, 3, -1]} : tensor<1x4xf32> -> tensor<5x3x4xf32>
  func.return %0 : tensor<5x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @nothing
// CHECK-NEXT:    %[[R:.*]] = tensor_ext.elementwise {math.exp} %x : tensor<2x3xf32>
// CHECK-NEXT:    func.return %[[R]]
func.func @nothing(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = torch.aten.view %x {size = [2, 3]} : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = torch.aten.squeeze.dim %0 {dim = 0} : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = torch.aten.clone %1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = torch.aten.exp %2 : tensor<2x3xf32> -> tensor<2x3xf32>
  func.return %3 : tensor<2x3xf32>
}

// -----

// A function returns fresh tensors, also where it returns its argument or one value twice.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
// CHECK-NEXT:    %[[C:.*]] = tensor_ext.index_map %x affine_map<(d0) -> (d0)> : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %[[D:.*]] = tensor_ext.index_map %[[E]] affine_map<(d0) -> (d0)> : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %[[C]], %[[E]], %[[D]]
func.func @returned(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = torch.aten.detach %x : tensor<4xf32> -> tensor<4xf32>
  %1 = torch.aten.exp %0 : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1, %1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
