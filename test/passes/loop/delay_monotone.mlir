// RUN: deplodock-opt %s -p delay-monotone --split-input-file --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p delay-monotone --split-input-file | diff - %t.once

// A window of several loops: what ends the innermost body follows the outermost loop, in its order.
// CHECK-LABEL: func.func @window
// CHECK:         %[[MAX:.*]] = loop.reduce {arith.maximumf} %{{.*}} = 0 to 2
// CHECK-NEXT:      %[[INNER:.*]] = loop.reduce {arith.maximumf} %{{.*}} = 0 to 2
// CHECK-NEXT:        %[[V:.*]] = loop.load %x
// CHECK-NEXT:        loop.yield %[[V]]
// CHECK:         %[[S:.*]] = arith.mulf %[[MAX]], %{{.*}}
// CHECK-NEXT:    %[[T:.*]] = math.tanh %[[S]]
// CHECK-NEXT:    loop.store %[[T]], %out
func.func @window(%x: memref<8x2x2xf32>, %out: memref<8xf32>) {
  %two = arith.constant 2.0 : f32
  loop.for %m = 0 to 8 {
    %max = loop.reduce {arith.maximumf} %k = 0 to 2 : f32 {
      %inner = loop.reduce {arith.maximumf} %l = 0 to 2 : f32 {
        %v = loop.load %x[%m, %k, %l] : memref<8x2x2xf32>
        %s = arith.mulf %v, %two : f32
        %t = math.tanh %s : f32
        loop.yield %t : f32
      }
      loop.yield %inner : f32
    }
    loop.store %max, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// A minimum, up to what does not keep the order: a product with a number below zero.
// CHECK-LABEL: func.func @minimum
// CHECK:         %[[MIN:.*]] = loop.reduce {arith.minimumf}
// CHECK:           %[[S:.*]] = arith.mulf
// CHECK-NEXT:      loop.yield %[[S]]
// CHECK:         math.exp %[[MIN]]
func.func @minimum(%x: memref<8x4xf32>, %out: memref<8xf32>) {
  %minus = arith.constant -2.0 : f32
  loop.for %m = 0 to 8 {
    %min = loop.reduce {arith.minimumf} %k = 0 to 4 : f32 {
      %v = loop.load %x[%m, %k] : memref<8x4xf32>
      %s = arith.mulf %v, %minus : f32
      %t = math.exp %s : f32
      loop.yield %t : f32
    }
    loop.store %min, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// Where points may not count, the identity may be the result, and a value that is used otherwise is needed at each point.
// CHECK-LABEL: func.func @stays
// CHECK:         loop.where
// CHECK:           math.tanh
// CHECK-NEXT:      loop.yield
// CHECK:           math.tanh
// CHECK-NEXT:      arith.addf
// CHECK-NEXT:      loop.yield
func.func @stays(%x: memref<8x4xf32>, %out: memref<8xf32>, %other: memref<8xf32>) {
  loop.for %m = 0 to 8 {
    %max = loop.reduce {arith.maximumf} %k = 0 to 4 : f32 {
      loop.where %k < %m + 1
      %v = loop.load %x[%m, %k] : memref<8x4xf32>
      %t = math.tanh %v : f32
      loop.yield %t : f32
    }
    loop.store %max, %out[%m] : memref<8xf32>
    %max_1 = loop.reduce {arith.maximumf} %k_1 = 0 to 4 : f32 {
      %v_1 = loop.load %x[%m, %k_1] : memref<8x4xf32>
      %t_1 = math.tanh %v_1 : f32
      %w_1 = arith.addf %t_1, %t_1 : f32
      loop.yield %w_1 : f32
    }
    loop.store %max_1, %other[%m] : memref<8xf32>
  }
  func.return
}
