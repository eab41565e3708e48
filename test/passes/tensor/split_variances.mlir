// RUN: deplodock-opt %s -p split-variances --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p split-variances,split-variances --split-input-file | filecheck %s

// The statistics of few channels: a part is a channel of an image, folded around its own mean.
// CHECK-LABEL: func.func @channels
// CHECK-NEXT:    %[[P:.*]] = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d1, (d2 floordiv 56), (d2 mod 56))> : tensor<16x8x56x56xf32> -> tensor<16x8x3136xf32>
// CHECK-NEXT:    %[[PS:.*]] = tensor_ext.reduce {arith.addf} %[[P]] dims [2] : tensor<16x8x3136xf32> -> tensor<16x8xf32>
// CHECK:         %[[PM:.*]] = tensor_ext.elementwise {arith.divf} %[[PS]], %{{.*}} : tensor<16x8xf32>
// CHECK:         %[[PC:.*]] = tensor_ext.elementwise {arith.subf} %[[P]], %{{.*}} : tensor<16x8x3136xf32>
// CHECK:         %[[PQ:.*]] = tensor_ext.reduce {arith.addf} %{{.*}} dims [2] : tensor<16x8x3136xf32> -> tensor<16x8xf32>
// CHECK-NEXT:    %[[S:.*]] = tensor_ext.reduce {arith.addf} %[[PS]] dims [0] : tensor<16x8xf32> -> tensor<8xf32>
// CHECK:         %[[M:.*]] = tensor_ext.elementwise {arith.divf} %[[S]], %n : tensor<8xf32>
// CHECK:         tensor_ext.elementwise {arith.subf} %[[PM]], %{{.*}} : tensor<16x8xf32>
// CHECK:         %[[B:.*]] = tensor_ext.elementwise {arith.mulf} %{{.*}}, %{{.*}} : tensor<16x8xf32>
// CHECK-NEXT:    %[[Q:.*]] = tensor_ext.elementwise {arith.addf} %[[PQ]], %[[B]] : tensor<16x8xf32>
// CHECK-NEXT:    %[[R:.*]] = tensor_ext.reduce {arith.addf} %[[Q]] dims [0] : tensor<16x8xf32> -> tensor<8xf32>
// CHECK-NEXT:    func.return %[[M]], %[[R]]
func.func @channels(%x: tensor<16x8x56x56xf32>, %n: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0, 2, 3] : tensor<16x8x56x56xf32> -> tensor<8xf32>
  %mean = tensor_ext.elementwise {arith.divf} %sum, %n : tensor<8xf32>
  %spread = tensor_ext.index_map %mean affine_map<(d0, d1, d2, d3) -> (d1)> : tensor<8xf32> -> tensor<16x8x56x56xf32>
  %centred = tensor_ext.elementwise {arith.subf} %x, %spread : tensor<16x8x56x56xf32>
  %sq = tensor_ext.elementwise %centred, %centred : tensor<16x8x56x56xf32>, tensor<16x8x56x56xf32> -> tensor<16x8x56x56xf32> (%a: f32, %b: f32) {
    %p = arith.mulf %a, %b fastmath<reassoc> : f32
    tensor_ext.yield %p : f32
  }
  %squares = tensor_ext.reduce {arith.addf} %sq dims [0, 2, 3] : tensor<16x8x56x56xf32> -> tensor<8xf32>
  func.return %mean, %squares : tensor<8xf32>, tensor<8xf32>
}

// -----

// No length divides a prime: what is left over is folded with the parts.
// CHECK-LABEL: func.func @prime
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [1] : tensor<625x16000xf32> -> tensor<625xf32>
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [1] : tensor<625x16000xf32> -> tensor<625xf32>
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [0] : tensor<625xf32> -> tensor<f32>
// CHECK:         tensor_ext.index_map %x affine_map<(d0) -> ((d0 + 10000000))>
// CHECK:         %{{.*}} = tensor_ext.elementwise {arith.addf} %{{.*}}, %{{.*}} : tensor<f32>
// CHECK:         %[[R:.*]] = tensor_ext.elementwise {arith.addf} %{{.*}}, %{{.*}} : tensor<f32>
// CHECK-NEXT:    func.return %[[R]]
func.func @prime(%x: tensor<10000019xf32>, %n: tensor<f32>) -> tensor<f32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<10000019xf32> -> tensor<f32>
  %mean = tensor_ext.elementwise {arith.divf} %sum, %n : tensor<f32>
  %spread = tensor_ext.index_map %mean affine_map<(d0) -> ()> : tensor<f32> -> tensor<10000019xf32>
  %centred = tensor_ext.elementwise {arith.subf} %x, %spread : tensor<10000019xf32>
  %sq = tensor_ext.elementwise %centred, %centred : tensor<10000019xf32>, tensor<10000019xf32> -> tensor<10000019xf32> (%a: f32, %b: f32) {
    %p = arith.mulf %a, %b fastmath<reassoc> : f32
    tensor_ext.yield %p : f32
  }
  %squares = tensor_ext.reduce {arith.addf} %sq dims [0] : tensor<10000019xf32> -> tensor<f32>
  func.return %squares : tensor<f32>
}

// -----

// As it is: many rows that stay on chip, and a square that must be computed as it is written.
// CHECK-LABEL: func.func @rows
// CHECK-COUNT-2: tensor_ext.reduce {arith.addf} %{{.*}} dims [1] : tensor<4096x1024xf32>
// CHECK-NOT:     tensor_ext.reduce
func.func @rows(%x: tensor<4096x1024xf32>, %n: tensor<4096xf32>) -> tensor<4096xf32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
  %mean = tensor_ext.elementwise {arith.divf} %sum, %n : tensor<4096xf32>
  %spread = tensor_ext.index_map %mean affine_map<(d0, d1) -> (d0)> : tensor<4096xf32> -> tensor<4096x1024xf32>
  %centred = tensor_ext.elementwise {arith.subf} %x, %spread : tensor<4096x1024xf32>
  %sq = tensor_ext.elementwise %centred, %centred : tensor<4096x1024xf32>, tensor<4096x1024xf32> -> tensor<4096x1024xf32> (%a: f32, %b: f32) {
    %p = arith.mulf %a, %b fastmath<reassoc> : f32
    tensor_ext.yield %p : f32
  }
  %squares = tensor_ext.reduce {arith.addf} %sq dims [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
  func.return %squares : tensor<4096xf32>
}

// CHECK-LABEL: func.func @strict
// CHECK-COUNT-2: tensor_ext.reduce {arith.addf} %{{.*}} dims [0] : tensor<10000019xf32>
// CHECK-NOT:     tensor_ext.reduce
func.func @strict(%x: tensor<10000019xf32>, %n: tensor<f32>) -> tensor<f32> {
  %sum = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<10000019xf32> -> tensor<f32>
  %mean = tensor_ext.elementwise {arith.divf} %sum, %n : tensor<f32>
  %spread = tensor_ext.index_map %mean affine_map<(d0) -> ()> : tensor<f32> -> tensor<10000019xf32>
  %centred = tensor_ext.elementwise {arith.subf} %x, %spread : tensor<10000019xf32>
  %sq = tensor_ext.elementwise {arith.mulf} %centred, %centred : tensor<10000019xf32>
  %squares = tensor_ext.reduce {arith.addf} %sq dims [0] : tensor<10000019xf32> -> tensor<f32>
  func.return %squares : tensor<f32>
}
