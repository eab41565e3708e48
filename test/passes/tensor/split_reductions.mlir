// RUN: deplodock-opt %s -p split-reductions --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p split-reductions,split-reductions --split-input-file | filecheck %s

// No length divides a prime: what is left over is folded with the parts.
// CHECK-LABEL: func.func @prime
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.index_map %x affine_map<(d0, d1) -> (((d0 * 6812) + d1))> : tensor<10000019xf32> -> tensor<1468x6812xf32>
// CHECK-NEXT:    %[[PS:.*]] = tensor_ext.reduce {arith.addf} %[[P]] dims [1] : tensor<1468x6812xf32> -> tensor<1468xf32>
// CHECK-NEXT:    %[[W:.*]] = tensor_ext.reduce {arith.addf} %[[PS]] dims [0] : tensor<1468xf32> -> tensor<f32>
// CHECK-NEXT:    %[[L:.*]] = tensor_ext.index_map %x affine_map<(d0) -> ((d0 + 10000016))> : tensor<10000019xf32> -> tensor<3xf32>
// CHECK-NEXT:    %[[LS:.*]] = tensor_ext.reduce {arith.addf} %[[L]] dims [0] : tensor<3xf32> -> tensor<f32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.elementwise {arith.addf} %[[W]], %[[LS]] : tensor<f32>
// CHECK-NEXT:    func.return %[[S]]
func.func @prime(%x: tensor<10000019xf32>) -> tensor<f32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<10000019xf32> -> tensor<f32>
  func.return %sum : tensor<f32>
}

// -----

// Parts of halves start at multiples of 8 elements, as wide accesses do.
// CHECK-LABEL: func.func @halves
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise {arith.extf}
// CHECK-NEXT:    %{{.*}} = tensor_ext.index_map %{{.*}} affine_map<(d0, d1) -> (((d0 * 5872) + d1))>
func.func @halves(%x: tensor<10000019xbf16>) -> tensor<f32> {
  %w = tensor_ext.elementwise {arith.extf} %x : tensor<10000019xbf16> -> tensor<10000019xf32>
  %sum = tensor_ext.reduce {arith.addf} %w dims [0] : tensor<10000019xf32> -> tensor<f32>
  func.return %sum : tensor<f32>
}

// -----

// The dimensions before the one that is cut are free in the first step.
// CHECK-LABEL: func.func @cube
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2, d3) -> (d0, ((d1 * 32) + d2), d3)> : tensor<64x1024x1024xf32> -> tensor<64x32x32x1024xf32>
// CHECK-NEXT:    %[[PM:.*]] = tensor_ext.reduce {arith.maximumf} %[[P]] dims [2, 3] : tensor<64x32x32x1024xf32> -> tensor<64x32xf32>
// CHECK-NEXT:    %[[M:.*]] = tensor_ext.reduce {arith.maximumf} %[[PM]] dims [0, 1] : tensor<64x32xf32> -> tensor<f32>
// CHECK-NEXT:    func.return %[[M]]
func.func @cube(%x: tensor<64x1024x1024xf32>) -> tensor<f32> {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [0, 1, 2] : tensor<64x1024x1024xf32> -> tensor<f32>
  func.return %max : tensor<f32>
}

// -----

// A dimension that stays, between those that are reduced.
// CHECK-LABEL: func.func @channels
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [1, 3] : tensor<256x16x8x4096xf32> -> tensor<256x8xf32>
// CHECK-NEXT:    tensor_ext.reduce {arith.addf} %{{.*}} dims [0] : tensor<256x8xf32> -> tensor<8xf32>
// CHECK-NEXT:    func.return
func.func @channels(%x: tensor<4096x8x4096xf32>) -> tensor<8xf32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0, 2] : tensor<4096x8x4096xf32> -> tensor<8xf32>
  func.return %sum : tensor<8xf32>
}

// -----

// Few columns, whose elements a warp shares.
// CHECK-LABEL: func.func @columns
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [1] : tensor<256x4096x64xf32> -> tensor<256x64xf32>
// CHECK-NEXT:    tensor_ext.reduce {arith.addf} %{{.*}} dims [0] : tensor<256x64xf32> -> tensor<64xf32>
// CHECK-NEXT:    func.return
func.func @columns(%x: tensor<1048576x64xf32>) -> tensor<64xf32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<1048576x64xf32> -> tensor<64xf32>
  func.return %sum : tensor<64xf32>
}

// -----

// One launch: a short reduction, many rows, many columns, a contraction, an empty one, one with an attribute.
// CHECK-LABEL: func.func @one
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} : tensor<4097xf32> -> tensor<f32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} : tensor<4096x50000xf32> -> tensor<4096xf32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} : tensor<4096x50000xf32> -> tensor<50000xf32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.index_map
// CHECK-NEXT:    %{{.*}} = tensor_ext.index_map
// CHECK-NEXT:    %{{.*}} = tensor_ext.elementwise
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} : tensor<8x8x1048576xf32> -> tensor<8x8xf32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} : tensor<0x1048576xf32> -> tensor<f32>
// CHECK-NEXT:    %{{.*}} = tensor_ext.reduce {{.*}} attributes {deplodock.fuse = "never"} : tensor<8x1048576xf32> -> tensor<f32>
// CHECK-NEXT:    func.return
func.func @one(%short: tensor<4097xf32>, %x: tensor<4096x50000xf32>, %y: tensor<8x1048576xf32>, %none: tensor<0x1048576xf32>) -> (tensor<f32>, tensor<4096xf32>, tensor<50000xf32>, tensor<8x8xf32>, tensor<f32>, tensor<f32>) {
  %s0 = tensor_ext.reduce {arith.addf} %short dims [0] : tensor<4097xf32> -> tensor<f32>
  %s1 = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4096x50000xf32> -> tensor<4096xf32>
  %s2 = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<4096x50000xf32> -> tensor<50000xf32>
  %a = tensor_ext.index_map %y affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<8x1048576xf32> -> tensor<8x8x1048576xf32>
  %b = tensor_ext.index_map %y affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<8x1048576xf32> -> tensor<8x8x1048576xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<8x8x1048576xf32>
  %s3 = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<8x8x1048576xf32> -> tensor<8x8xf32>
  %s4 = tensor_ext.reduce {arith.addf} %none dims [0, 1] : tensor<0x1048576xf32> -> tensor<f32>
  %s5 = tensor_ext.reduce {arith.addf} %y dims [0, 1] attributes {deplodock.fuse = "never"} : tensor<8x1048576xf32> -> tensor<f32>
  func.return %s0, %s1, %s2, %s3, %s4, %s5 : tensor<f32>, tensor<4096xf32>, tensor<50000xf32>, tensor<8x8xf32>, tensor<f32>, tensor<f32>
}

// -----

// A reduction of several values at once, whose combiner folds the parts and what is left over.
// CHECK-LABEL: func.func @pair
// CHECK:         %[[WS:.*]], %[[WM:.*]] = tensor_ext.reduce {arith.addf, arith.maximumf} %{{.*}}, %{{.*}} dims [0] : tensor<500xf32>, tensor<500xf32> -> tensor<f32>, tensor<f32>
// CHECK:         %[[LS:.*]], %[[LM:.*]] = tensor_ext.reduce {arith.addf, arith.maximumf} %{{.*}}, %{{.*}} dims [0] : tensor<3xf32>, tensor<3xf32> -> tensor<f32>, tensor<f32>
// CHECK-NEXT:    %{{.*}}, %{{.*}} = tensor_ext.elementwise %[[WS]], %[[WM]], %[[LS]], %[[LM]] :
func.func @pair(%x: tensor<1000003xf32>) -> (tensor<f32>, tensor<f32>) {
  %s, %m = tensor_ext.reduce {arith.addf, arith.maximumf} %x, %x dims [0] : tensor<1000003xf32>, tensor<1000003xf32> -> tensor<f32>, tensor<f32>
  func.return %s, %m : tensor<f32>, tensor<f32>
}
