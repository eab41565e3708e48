// RUN: deplodock-opt %s -p lower-to-loops --split-input-file | filecheck %s

// An iota is the coordinate as a number; through an index map, of the subscript there.
// CHECK-LABEL: func.func @k_count
// CHECK:         loop.for %[[I:.*]] = 0 to 4 {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 8 {
// CHECK-NEXT:        %[[X:.*]] = loop.index [%[[J]] * -1 + 7]
// CHECK-NEXT:        %[[N:.*]] = arith.index_cast %[[X]] : index to i64
// CHECK-NEXT:        loop.store %[[N]], %out[%[[I]], %[[J]]] : memref<4x8xi64>
func.func @main() -> tensor<4x8xi64> {
  %0 = tensor_ext.kernel @k_count() -> tensor<4x8xi64> {
    %n = tensor_ext.iota dim 1 : tensor<4x8xi64>
    %r = tensor_ext.index_map %n affine_map<(d0, d1) -> (d0, -d1 + 7)> : tensor<4x8xi64> -> tensor<4x8xi64>
    tensor_ext.yield %r : tensor<4x8xi64>
  }
  func.return %0 : tensor<4x8xi64>
}

// -----

// A row lookup: the subscript is read once for a row.
// CHECK-LABEL: func.func @k_rows
// CHECK:         loop.for %[[I:.*]] = 0 to 3 {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 4 {
// CHECK-NEXT:        %[[E:.*]] = loop.load %i0[%[[I]]] : memref<3xi64>
// CHECK-NEXT:        %[[R:.*]] = arith.index_cast %[[E]] : i64 to index
// CHECK-NEXT:        %[[V:.*]] = loop.load %t0[%[[R]], %[[J]]] : memref<9x4xf32>
// CHECK-NEXT:        loop.store %[[V]], %out[%[[I]], %[[J]]] : memref<3x4xf32>
func.func @main(%t: tensor<9x4xf32>, %ids: tensor<3xi64>) -> tensor<3x4xf32> {
  %0 = tensor_ext.kernel @k_rows(%t0 = %t : tensor<9x4xf32>, %i0 = %ids : tensor<3xi64>) -> tensor<3x4xf32> {
    %i = tensor_ext.index_map %i0 affine_map<(d0, d1) -> (d0)> : tensor<3xi64> -> tensor<3x4xi64>
    %r = tensor_ext.gather %t0 at %i affine_map<(d0, d1)[s0] -> (s0, d1)> : tensor<9x4xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
    tensor_ext.yield %r : tensor<3x4xf32>
  }
  func.return %0 : tensor<3x4xf32>
}

// -----

// The parts of a concat go to their places in one buffer; parts of one shape share the loops.
// CHECK-LABEL: func.func @k_cat
// CHECK:         loop.for %[[I:.*]] = 0 to 4 {
// CHECK:           %[[A:.*]] = loop.load %x0[%[[I]]] : memref<4xf32>
// CHECK-NEXT:      %[[B:.*]] = math.exp %[[A]] : f32
// CHECK-NEXT:      loop.store %[[A]], %out[%[[I]]] : memref<10xf32>
// CHECK-NEXT:      loop.store %[[B]], %out[%[[I]] + 6] : memref<10xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %[[J:.*]] = 0 to 2 {
// CHECK-NEXT:      %[[C:.*]] = loop.load %y0[%[[J]]] : memref<2xf32>
// CHECK-NEXT:      loop.store %[[C]], %out[%[[J]] + 4] : memref<10xf32>
func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<10xf32> {
  %0 = tensor_ext.kernel @k_cat(%x0 = %x : tensor<4xf32>, %y0 = %y : tensor<2xf32>) -> tensor<10xf32> {
    %e = tensor_ext.elementwise {math.exp} %x0 : tensor<4xf32>
    %c = tensor_ext.concat %x0, %y0, %e dim 0 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32> -> tensor<10xf32>
    tensor_ext.yield %c : tensor<10xf32>
  }
  func.return %0 : tensor<10xf32>
}

// -----

// A pad reads its source, or 0 outside.
// CHECK-LABEL: func.func @k_pad
// CHECK:         loop.for %[[I:.*]] = 0 to 6 {
// CHECK-NEXT:      %[[V:.*]] = loop.load padded %x0[%[[I]] - 1] : memref<4xf32>
// CHECK-NEXT:      loop.store %[[V]], %out[%[[I]]] : memref<6xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<6xf32> {
  %0 = tensor_ext.kernel @k_pad(%x0 = %x : tensor<4xf32>) -> tensor<6xf32> {
    %p = tensor_ext.pad %x0 affine_map<(d0) -> (d0 - 1)> : tensor<4xf32> -> tensor<6xf32>
    tensor_ext.yield %p : tensor<6xf32>
  }
  func.return %0 : tensor<6xf32>
}
