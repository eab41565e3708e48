// Reductions and the composites built on them.
// RUN: deplodock-opt %s -p decompose --split-input-file | filecheck %s

// Several dimensions, counted from the back; keepdim puts ones back.
// CHECK-LABEL: func.func @sum
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.reduce {arith.addf} %x dims [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[K:.*]] = tensor_ext.index_map %[[S]] affine_map<(d0, d1, d2) -> (d1)> : tensor<3xf32> -> tensor<1x3x1xf32>
// CHECK-NEXT:    %[[A:.*]] = tensor_ext.reduce {arith.addf} %x dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<f32>
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.reduce {arith.addf} %x dims [0, 1, 2] : tensor<2x3x4xf32> -> tensor<f32>
// CHECK-NEXT:    func.return %[[K]], %[[A]], %[[E]]
func.func @sum(%x: tensor<2x3x4xf32>) -> (tensor<1x3x1xf32>, tensor<f32>, tensor<f32>) {
  %0 = torch.aten.sum.dim_IntList %x {dim = [-1, 0], keepdim = true} : tensor<2x3x4xf32> -> tensor<1x3x1xf32>
  %1 = torch.aten.sum %x : tensor<2x3x4xf32> -> tensor<f32>
  %2 = torch.aten.sum.dim_IntList %x {dim = []} : tensor<2x3x4xf32> -> tensor<f32>
  func.return %0, %1, %2 : tensor<1x3x1xf32>, tensor<f32>, tensor<f32>
}

// -----

// Division by the number of elements; by a power of two it is an exact multiplication.
// CHECK-LABEL: func.func @mean
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<3x4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %[[N0:.*]] = arith.constant dense<3.000000e+00> : tensor<f32>
// CHECK-NEXT:    %[[N:.*]] = tensor_ext.index_map %[[N0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<4xf32>
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.elementwise {arith.divf} %[[S]], %[[N]] : tensor<4xf32>
// CHECK-NEXT:    %[[T:.*]] = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[I0:.*]] = arith.constant dense<2.500000e-01> : tensor<f32>
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.index_map %[[I0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<3xf32>
// CHECK-NEXT:    %[[E:.*]] = tensor_ext.elementwise {arith.mulf} %[[T]], %[[I]] : tensor<3xf32>
// CHECK-NEXT:    func.return %[[M]], %[[E]]
func.func @mean(%x: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %0 = torch.aten.mean.dim %x {dim = [0]} : tensor<3x4xf32> -> tensor<4xf32>
  %1 = torch.aten.mean.dim %x {dim = [1]} : tensor<3x4xf32> -> tensor<3xf32>
  func.return %0, %1 : tensor<4xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @amax
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.reduce {arith.maxsi} %i dims [0] : tensor<4xi64> -> tensor<i64>
// CHECK-NEXT:    func.return %[[M]], %[[I]]
func.func @amax(%x: tensor<3x4xf32>, %i: tensor<4xi64>) -> (tensor<3xf32>, tensor<i64>) {
  %0 = torch.aten.amax %x {dim = [-1]} : tensor<3x4xf32> -> tensor<3xf32>
  %1 = torch.aten.max %i : tensor<4xi64> -> tensor<i64>
  func.return %0, %1 : tensor<3xf32>, tensor<i64>
}

// -----

// Sums of the exponentials may be scaled as a whole, and sums of the shares divided.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[MB:.*]] = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<3xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %shifted = tensor_ext.elementwise {arith.subf} %x, %[[MB]] : tensor<3x4xf32>
// CHECK-NEXT:    %exp = tensor_ext.elementwise %shifted : tensor<3x4xf32>
// CHECK-NEXT:      math.exp %{{.*}} fastmath<reassoc> : f32
// CHECK:         }
// CHECK-NEXT:    %sum = tensor_ext.reduce {arith.addf} %exp dims [1] : tensor<3x4xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[SB:.*]] = tensor_ext.index_map %sum affine_map<(d0, d1) -> (d0)> : tensor<3xf32> -> tensor<3x4xf32>
// CHECK-NEXT:    %softmax = tensor_ext.elementwise %exp, %[[SB]] : tensor<3x4xf32>
// CHECK-NEXT:      arith.divf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %softmax = torch.aten.softmax.int %x {dim = -1} : tensor<3x4xf32> -> tensor<3x4xf32>
  func.return %softmax : tensor<3x4xf32>
}

// -----

// The default eps is that of the type.
// CHECK-LABEL: func.func @rms_norm
// CHECK-NEXT:    %sq = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<2x8xf32>
// CHECK-NEXT:    %sum = tensor_ext.reduce {arith.addf} %sq dims [1] : tensor<2x8xf32> -> tensor<2xf32>
// CHECK-NEXT:    %[[I0:.*]] = arith.constant dense<1.250000e-01> : tensor<f32>
// CHECK-NEXT:    %[[I:.*]] = tensor_ext.index_map %[[I0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<2xf32>
// CHECK-NEXT:    %mean = tensor_ext.elementwise {arith.mulf} %sum, %[[I]] : tensor<2xf32>
// CHECK-NEXT:    %[[EPS0:.*]] = arith.constant dense<1.1920929e-07> : tensor<f32>
// CHECK-NEXT:    %[[EPS:.*]] = tensor_ext.index_map %[[EPS0]] affine_map<(d0) -> ()> : tensor<f32> -> tensor<2xf32>
// CHECK-NEXT:    %mean_eps = tensor_ext.elementwise {arith.addf} %mean, %[[EPS]] : tensor<2xf32>
// CHECK-NEXT:    %rsqrt = tensor_ext.elementwise {math.rsqrt} %mean_eps : tensor<2xf32>
// CHECK-NEXT:    %[[RB:.*]] = tensor_ext.index_map %rsqrt affine_map<(d0, d1) -> (d0)> : tensor<2xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %normal = tensor_ext.elementwise {arith.mulf} %x, %[[RB]] : tensor<2x8xf32>
// CHECK-NEXT:    %[[WB:.*]] = tensor_ext.index_map %w affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    %y = tensor_ext.elementwise {arith.mulf} %normal, %[[WB]] : tensor<2x8xf32>
func.func @rms_norm(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  %y = torch.aten.rms_norm %x, %w {normalized_shape = [8]} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// -----

// A given eps, two normalized dimensions and no weight.
// CHECK-LABEL: func.func @rms_norm_plain
// CHECK:         tensor_ext.reduce {arith.addf} %sq dims [1, 2] : tensor<2x3x5xf64> -> tensor<2xf64>
// CHECK-NEXT:    arith.constant dense<1.500000e+01>
// CHECK-NEXT:    tensor_ext.index_map
// CHECK-NEXT:    tensor_ext.elementwise {arith.divf}
// CHECK-NEXT:    %[[C0:.*]] = arith.constant dense<1.000000e-03> : tensor<f64>
// CHECK-NEXT:    %[[C:.*]] = tensor_ext.index_map %[[C0]] affine_map<(d0) -> ()> : tensor<f64> -> tensor<2xf64>
func.func @rms_norm_plain(%x: tensor<2x3x5xf64>) -> tensor<2x3x5xf64> {
  %y = torch.aten.rms_norm %x {normalized_shape = [3, 5], eps = 1.0e-03} : tensor<2x3x5xf64> -> tensor<2x3x5xf64>
  func.return %y : tensor<2x3x5xf64>
}
