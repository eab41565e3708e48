// RUN: deplodock-opt %s -p choose-schedule,tileify,cooperative-reduce,blockify-launch,stage-inputs 2>/dev/null | filecheck %s
// RUN: deplodock-opt %s -p choose-schedule,tileify,cooperative-reduce,blockify-launch,stage-inputs --check-semantics

// All rules of a row kernel, by heuristics: each row has a CTA, and its threads keep their part of it in registers. The
// weight, which is read after the reduction, is on its way to registers before it.
// CHECK-LABEL: func.func @k(%x: memref<1x32x1024xf32>, %w: memref<1024xf32>, %out: memref<1x32x1024xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=128 vector=4},blockify-launch{threads=256},stage-inputs,mark-unroll"} {
// CHECK-NEXT:    tile.launch (%[[I_B:.*]] = 16 : block, %[[I_T:.*]] = 2 : thread, %[[T:.*]] = 128 : thread, %[[V:.*]] = 4 : register) {
// CHECK-NEXT:      %[[I:.*]] = loop.index [%[[I_B]] * 2 + %[[I_T]]]
// CHECK-NEXT:      %[[X_REG:.*]] = tile.stage %x[0, %[[I]], d0 * 512 + %[[T]] * 4 + d1] : memref<1x32x1024xf32> to memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[W_REG:.*]] = tile.stage %w[d0 * 512 + %[[T]] * 4 + d1] : memref<1024xf32> to memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[I_1:.*]] = 0 to 2 unroll : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[I_1]] * 512 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %[[X_REG]][%[[I_1]], %[[V]]] : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[SQ:.*]] = arith.mulf %[[V_1]], %[[V_1]] : f32
// CHECK-NEXT:        loop.yield %[[SQ]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[SUM_1:.*]] = tile.combine {arith.addf} %[[SUM]] over (%[[T]], %[[V]]) : f32
// CHECK-NEXT:      %[[N:.*]] = arith.constant 1.024000e+03 : f32
// CHECK-NEXT:      %[[EPS:.*]] = arith.constant 1.1920929e-07 : f32
// CHECK-NEXT:      %[[MEAN:.*]] = arith.divf %[[SUM_1]], %[[N]] : f32
// CHECK-NEXT:      %[[SHIFTED:.*]] = arith.addf %[[MEAN]], %[[EPS]] : f32
// CHECK-NEXT:      %[[R:.*]] = math.rsqrt %[[SHIFTED]] : f32
// CHECK-NEXT:      loop.for %[[I_2:.*]] = 0 to 2 unroll {
// CHECK-NEXT:        %[[J:.*]] = loop.index [%[[I_2]] * 512 + %[[T]] * 4 + %[[V]]]
// CHECK-NEXT:        %[[V_2:.*]] = loop.load %[[X_REG]][%[[I_2]], %[[V]]] : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[G:.*]] = loop.load %[[W_REG]][%[[I_2]], %[[V]]] : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[S:.*]] = arith.mulf %[[V_2]], %[[R]] : f32
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[S]], %[[G]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[0, %[[I]], %[[J]]] : memref<1x32x1024xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @k(%x: memref<1x32x1024xf32>, %w: memref<1024xf32>, %out: memref<1x32x1024xf32>) {
  loop.for %i = 0 to 32 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1024 : f32 {
      %v = loop.load %x[0, %i, %k] : memref<1x32x1024xf32>
      %sq = arith.mulf %v, %v : f32
      loop.yield %sq : f32
    }
    %n = arith.constant 1024.0 : f32
    %eps = arith.constant 1.1920929e-07 : f32
    %mean = arith.divf %sum, %n : f32
    %shifted = arith.addf %mean, %eps : f32
    %r = math.rsqrt %shifted : f32
    loop.for %j = 0 to 1024 {
      %v = loop.load %x[0, %i, %j] : memref<1x32x1024xf32>
      %g = loop.load %w[%j] : memref<1024xf32>
      %s = arith.mulf %v, %r : f32
      %y = arith.mulf %s, %g : f32
      loop.store %y, %out[0, %i, %j] : memref<1x32x1024xf32>
    }
  }
  func.return
}
