// RUN: deplodock-opt %s -p form-kernels,lower-to-loops --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p form-kernels,lower-to-loops,tileify,cooperative-reduce --split-input-file --check-semantics

// A scan runs along the innermost loop; what feeds it and what follows it share the kernel.
// CHECK-LABEL: func.func @k_y(%x: memref<4x8x3xf32>, %out: memref<4x8x3xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 4 {
// CHECK-NEXT:      loop.for %a1 = 0 to 3 {
// CHECK-NEXT:        loop.for %a2 = 0 to 8 {
// CHECK-NEXT:          %[[IN:.*]] = loop.load %x[%a0, %a2, %a1] : memref<4x8x3xf32>
// CHECK-NEXT:          %e = math.exp %[[IN]] : f32
// CHECK-NEXT:          %s = loop.scan {arith.addf} %e along (%a2) : f32
// CHECK-NEXT:          %y = arith.mulf %s, %e : f32
// CHECK-NEXT:          loop.store %y, %out[%a0, %a2, %a1] : memref<4x8x3xf32>
func.func @fused(%x: tensor<4x8x3xf32>) -> tensor<4x8x3xf32> {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<4x8x3xf32>
  %s = tensor_ext.scan {arith.addf} %e dim 1 : tensor<4x8x3xf32>
  %y = tensor_ext.elementwise {arith.mulf} %s, %e : tensor<4x8x3xf32>
  func.return %y : tensor<4x8x3xf32>
}

// -----

// A scan in reverse, or between two flips, runs along a loop that walks memory backwards.
// CHECK-LABEL: func.func @k_g(%x: memref<9xf32>, %out: memref<9xf32>) {
// CHECK-NEXT:    loop.for %a0 = 0 to 9 {
// CHECK-NEXT:      %[[IN:.*]] = loop.load %x[%a0 * -1 + 8] : memref<9xf32>
// CHECK-NEXT:      %flip = loop.scan {arith.addf} %[[IN]] along (%a0) : f32
// CHECK-NEXT:      loop.store %flip, %out[%a0 * -1 + 8] : memref<9xf32>
// CHECK-LABEL: func.func @k_reverse(%x: memref<9xf32>, %out: memref<9xf32>) {
// CHECK:           %reverse = loop.scan {arith.addf} %{{.*}} along (%a0) exclusive : f32
// CHECK-NEXT:      loop.store %reverse, %out[%a0 * -1 + 8] : memref<9xf32>
func.func @backwards(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %f = tensor_ext.index_map %x affine_map<(d0) -> (8 - d0)> : tensor<9xf32> -> tensor<9xf32>
  %flip = tensor_ext.scan {arith.addf} %f dim 0 : tensor<9xf32>
  %g = tensor_ext.index_map %flip affine_map<(d0) -> (8 - d0)> : tensor<9xf32> -> tensor<9xf32>
  %reverse = tensor_ext.scan {arith.addf} %x dim 0 exclusive reverse : tensor<9xf32>
  func.return %g, %reverse : tensor<9xf32>, tensor<9xf32>
}

// -----

// Rows that are reduced and scanned are one kernel.
// CHECK-LABEL: func.func @k_s(
// CHECK-NEXT:    loop.for %a0 = 0 to 5 {
// CHECK-NEXT:      %m = loop.reduce {arith.maximumf} %a1 = 0 to 40 : f32 {
// CHECK:           loop.for %a2 = 0 to 40 {
// CHECK:             %s = loop.scan {arith.addf} %{{.*}} along (%a2) : f32
func.func @rows(%x: tensor<5x40xf32>) -> tensor<5x40xf32> {
  %m = tensor_ext.reduce {arith.maximumf} %x dims [1] : tensor<5x40xf32> -> tensor<5xf32>
  %b = tensor_ext.index_map %m affine_map<(d0, d1) -> (d0)> : tensor<5xf32> -> tensor<5x40xf32>
  %d = tensor_ext.elementwise {arith.subf} %x, %b : tensor<5x40xf32>
  %s = tensor_ext.scan {arith.addf} %d dim 1 : tensor<5x40xf32>
  func.return %s : tensor<5x40xf32>
}

// -----

// The scan of equal elements needs a loop, and that of one element none.
// CHECK-LABEL: func.func @k_c(%out: memref<6xi64>) {
// CHECK:         loop.for %a0 = 0 to 6 {
// CHECK-NEXT:      %c = loop.scan {arith.addi} %{{.*}} along (%a0) : i64
// CHECK-LABEL: func.func @k_one(%x: memref<3x1xf32>, %out: memref<3x1xf32>) {
// CHECK-NOT:     loop.scan
// CHECK:       }
func.func @short(%x: tensor<3x1xf32>) -> (tensor<6xi64>, tensor<3x1xf32>) {
  %n = arith.constant dense<1> : tensor<6xi64>
  %c = tensor_ext.scan {arith.addi} %n dim 0 : tensor<6xi64>
  %e = tensor_ext.elementwise {math.exp} %x : tensor<3x1xf32>
  %one = tensor_ext.scan {arith.addf} %e dim 1 : tensor<3x1xf32>
  func.return %c, %one : tensor<6xi64>, tensor<3x1xf32>
}
