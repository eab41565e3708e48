// RUN: deplodock-opt %s -p form-kernels,lower-to-loops --split-input-file | filecheck %s

// Rank 0 has no loops.
// CHECK-LABEL: func.func @k_y(%x: memref<f32>, %out: memref<f32>) {
// CHECK-NEXT:    %[[IN:.*]] = loop.load %x[] : memref<f32>
// CHECK-NEXT:    %y = math.exp %[[IN]] : f32
// CHECK-NEXT:    loop.store %y, %out[] : memref<f32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = tensor_ext.elementwise {math.exp} %x : tensor<f32>
  func.return %y : tensor<f32>
}

// -----

// Extent 1 has no loop, reduced or not.
// CHECK-LABEL: func.func @k_y(
// CHECK-NEXT:    loop.for %a0 = 0 to 5 {
// CHECK-NEXT:      %[[IN:.*]] = loop.load %x[0, %a0, 0] : memref<1x5x1xf32>
// CHECK-NEXT:      %y = arith.negf %[[IN]] : f32
// CHECK-NEXT:      loop.store %y, %out[0, %a0] : memref<1x5xf32>
func.func @main(%x: tensor<1x5x1xf32>) -> tensor<1x5xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [2] : tensor<1x5x1xf32> -> tensor<1x5xf32>
  %y = tensor_ext.elementwise {arith.negf} %s : tensor<1x5xf32>
  func.return %y : tensor<1x5xf32>
}

// -----

// A reduction of everything stands in no loop.
// CHECK-LABEL: func.func @k_y(
// CHECK-NEXT:    %s = loop.reduce {arith.addf} %a0 = 0 to 5 : f32 {
// CHECK:           loop.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %a1 = 0 to 5 {
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %s = tensor_ext.reduce {arith.addf} %x dims [0] : tensor<5xf32> -> tensor<f32>
  %b = tensor_ext.index_map %s affine_map<(d0) -> ()> : tensor<f32> -> tensor<5xf32>
  %y = tensor_ext.elementwise {arith.divf} %x, %b : tensor<5xf32>
  func.return %y : tensor<5xf32>
}

// -----

// Loops over nothing: a reduction gives its identity, an output is never stored.
// CHECK-LABEL: func.func @k_s(%x: memref<3x0xf32>, %out: memref<3xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 3 {
// CHECK-NEXT:      %s = loop.reduce {arith.addf} %a1 = 0 to 0 : f32 {
// CHECK:           loop.store %s, %out[%a0]
// CHECK-LABEL: func.func @k_n(%x: memref<3x0xf32>, %out: memref<3x0xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 3 {
// CHECK-NEXT:      loop.for %a1 = 0 to 0 {
func.func @main(%x: tensor<3x0xf32>) -> (tensor<3xf32>, tensor<3x0xf32>) {
  %s = tensor_ext.reduce {arith.addf} %x dims [1] : tensor<3x0xf32> -> tensor<3xf32>
  %n = tensor_ext.elementwise {arith.negf} %x : tensor<3x0xf32>
  func.return %s, %n : tensor<3xf32>, tensor<3x0xf32>
}

// -----

// A smaller output is stored where its value is computed.
// CHECK-LABEL: func.func @k_y(%x: memref<4x8xf32>, %out0: memref<4xf32>, %out1: memref<4x8xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      %max = loop.reduce
// CHECK:             loop.yield
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %max, %out0[%a0] : memref<4xf32>
// CHECK-NEXT:      loop.for %a2 = 0 to 8 {
// CHECK:             loop.store %y, %out1[%a0, %a2] : memref<4x8xf32>
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %max = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %maxb = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<4xf32> -> tensor<4x8xf32>
  %y = tensor_ext.elementwise {arith.subf} %x, %maxb : tensor<4x8xf32>
  func.return %y, %max : tensor<4x8xf32>, tensor<4xf32>
}

// -----

// Outputs of one space are stored in one nest; a constant is written by a kernel; an argument is returned as it is.
// CHECK-LABEL: func.func @main(
// CHECK:         func.return %x, %y, %z, %c : memref<4xf32>, memref<4xf32>, memref<4xf32>, memref<2xi1>
// CHECK-LABEL: func.func @k_z(%x: memref<4xf32>, %out0: memref<4xf32>, %out1: memref<4xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      %[[IN:.*]] = loop.load %x[%a0]
// CHECK-NEXT:      %y = arith.negf %[[IN]] : f32
// CHECK-NEXT:      %z = arith.addf %y, %y : f32
// CHECK-NEXT:      loop.store %y, %out0[%a0]
// CHECK-NEXT:      loop.store %z, %out1[%a0]
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @k_c(%out: memref<2xi1>) {
// CHECK-NEXT:    %c = arith.constant true
// CHECK-NEXT:    loop.for %a0 = 0 to 2 {
// CHECK-NEXT:      loop.store %c, %out[%a0] : memref<2xi1>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi1>) {
  %y = tensor_ext.elementwise {arith.negf} %x : tensor<4xf32>
  %z = tensor_ext.elementwise {arith.addf} %y, %y : tensor<4xf32>
  %c = arith.constant dense<true> : tensor<2xi1>
  func.return %x, %y, %z, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi1>
}

// -----

// A kernel written by hand: its attributes move to the function, outputs of unrelated spaces get a nest each.
// CHECK-LABEL: func.func @two(%x0: memref<4xf32>, %y0: memref<3xf32>, %out0: memref<4xf32>, %out1: memref<3xf32>) attributes {deplodock.schedule = "tileify"} {
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK:           loop.store %{{.*}}, %out0[%a0]
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %a1 = 0 to 3 {
// CHECK:           loop.store %{{.*}}, %out1[%a1]
func.func @main(%x: tensor<4xf32>, %y: tensor<3xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %a, %b = tensor_ext.kernel @two(%x0 = %x : tensor<4xf32>, %y0 = %y : tensor<3xf32>) -> tensor<4xf32>, tensor<3xf32> attributes {deplodock.schedule = "tileify"} {
    %n = tensor_ext.elementwise {arith.negf} %x0 : tensor<4xf32>
    tensor_ext.yield %n, %y0 : tensor<4xf32>, tensor<3xf32>
  }
  func.return %a, %b : tensor<4xf32>, tensor<3xf32>
}
