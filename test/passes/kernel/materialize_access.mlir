// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// The ids are taken apart into the axes, the last one fastest; the function without a caller becomes host code.
// CHECK-LABEL: kernel.func @axes(%x: memref<3x4x8xf32>, %out: memref<3x4x8xf32>) blocks(%block = 3) threads(%thread = 32) occupancy 2 {
// CHECK-NEXT:    %[[A:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[B:.*]] = loop.index [%thread floordiv 8]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread mod 8]
// CHECK-NEXT:    %[[V:.*]] = loop.load %x[%[[A]], %[[B]], %[[T]]] : memref<3x4x8xf32>
// CHECK-NEXT:    loop.store %[[V]], %out[%[[A]], %[[B]], %[[T]]] : memref<3x4x8xf32>
// CHECK-LABEL: func.func @run_axes(%x: memref<3x4x8xf32>, %out: memref<3x4x8xf32>) {
// CHECK-NEXT:    kernel.launch @axes(%x, %out) : memref<3x4x8xf32>, memref<3x4x8xf32>
func.func @axes(%x: memref<3x4x8xf32>, %out: memref<3x4x8xf32>) {
  tile.launch (%a = 3 : block, %b = 4 : thread, %t = 8 : thread) occupancy 2 {
    %v = loop.load %x[%a, %b, %t] : memref<3x4x8xf32>
    loop.store %v, %out[%a, %b, %t] : memref<3x4x8xf32>
  }
  func.return
}

// -----

// A register axis along contiguous memory is one wide access.
// CHECK-LABEL: kernel.func @vectors(%x: memref<128xf32>, %out: memref<128xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 4 %x[%[[T]] * 4] to %[[A]][0] : memref<128xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    %[[B:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[A_1:.*]] = loop.load %[[A]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[B_1:.*]] = arith.addf %[[A_1]], %[[A_1]] : f32
// CHECK-NEXT:      loop.store %[[B_1]], %[[B]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    kernel.move 4 %[[B]][0] to %out[%[[T]] * 4] : memref<4xf32, #tile.memory<register>> to memref<128xf32>
// CHECK-LABEL: func.func @run_vectors(%x: memref<128xf32>, %out: memref<128xf32>) {
// CHECK-NEXT:    kernel.launch @vectors(%x, %out) : memref<128xf32>, memref<128xf32>
func.func @vectors(%x: memref<128xf32>, %out: memref<128xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %k = loop.index [%t * 4 + %v]
    %a = loop.load %x[%k] : memref<128xf32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %out[%k] : memref<128xf32>
  }
  func.return
}

// -----

// Beyond the end of the row a load is guarded by the buffer's shape, a store by the condition.
// CHECK-LABEL: kernel.func @ragged(%x: memref<100xf32>, %out: memref<100xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 4 %x[%[[T]] * 4] to %[[A]][0] where (%[[T]] * 4 < 100) : memref<100xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.guard where (%[[T]] * 4 < 100) {
// CHECK-NEXT:      kernel.move 4 %[[A]][0] to %out[%[[T]] * 4] : memref<4xf32, #tile.memory<register>> to memref<100xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_ragged(%x: memref<100xf32>, %out: memref<100xf32>) {
// CHECK-NEXT:    kernel.launch @ragged(%x, %out) : memref<100xf32>, memref<100xf32>
func.func @ragged(%x: memref<100xf32>, %out: memref<100xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %k = loop.index [%t * 4 + %v]
    loop.where %k < 100
    %a = loop.load %x[%k] : memref<100xf32>
    loop.store %a, %out[%k] : memref<100xf32>
  }
  func.return
}

// -----

// An odd end keeps accesses narrow: one vector would be half inside.
// CHECK-LABEL: kernel.func @odd(%x: memref<63xf32>, %out: memref<63xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      kernel.move 1 %x[%[[T]] * 2 + %[[V]]] to %[[A]][%[[V]]] where (%[[T]] * 2 + %[[V]] < 63) : memref<63xf32> to memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %[[V_1:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      loop.guard where (%[[T]] * 2 + %[[V_1]] < 63) {
// CHECK-NEXT:        %[[A_1:.*]] = loop.load %[[A]][%[[V_1]]] : memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:        loop.store %[[A_1]], %out[%[[T]] * 2 + %[[V_1]]] : memref<63xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_odd(%x: memref<63xf32>, %out: memref<63xf32>) {
// CHECK-NEXT:    kernel.launch @odd(%x, %out) : memref<63xf32>, memref<63xf32>
func.func @odd(%x: memref<63xf32>, %out: memref<63xf32>) {
  tile.launch (%t = 32 : thread, %v = 2 : register) {
    %k = loop.index [%t * 2 + %v]
    loop.where %k < 63
    %a = loop.load %x[%k] : memref<63xf32>
    loop.store %a, %out[%k] : memref<63xf32>
  }
  func.return
}

// -----

// One thread writes what all of them know.
// CHECK-LABEL: kernel.func @one_writer(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 4) threads(%thread = 32) {
// CHECK-NEXT:    %[[ROW:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[ROW]]] : memref<4xf32>
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[A]], %out[%[[ROW]]] : memref<4xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_one_writer(%x: memref<4xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    kernel.launch @one_writer(%x, %out) : memref<4xf32>, memref<4xf32>
func.func @one_writer(%x: memref<4xf32>, %out: memref<4xf32>) {
  tile.launch (%row = 4 : block, %t = 32 : thread, %v = 4 : register) {
    %a = loop.load %x[%row] : memref<4xf32>
    loop.store %a, %out[%row] : memref<4xf32>
  }
  func.return
}

// -----

// A condition on a block is a branch around all of it.
// CHECK-LABEL: kernel.func @uniform(%x: memref<5xf32>, %out: memref<5x32xf32>) blocks(%block = 6) threads(%thread = 32) {
// CHECK-NEXT:    %[[B:.*]] = loop.index [%block floordiv 2]
// CHECK-NEXT:    %[[C:.*]] = loop.index [%block mod 2]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    loop.guard where (%[[B]] * 2 + %[[C]] < 5) {
// CHECK-NEXT:      %[[A:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 1 %x[%[[B]] * 2 + %[[C]]] to %[[A]][] where (%[[B]] * 2 + %[[C]] < 5) : memref<5xf32> to memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[A_1:.*]] = loop.load %[[A]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      loop.store %[[A_1]], %out[%[[B]] * 2 + %[[C]], %[[T]]] : memref<5x32xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_uniform(%x: memref<5xf32>, %out: memref<5x32xf32>) {
// CHECK-NEXT:    kernel.launch @uniform(%x, %out) : memref<5xf32>, memref<5x32xf32>
func.func @uniform(%x: memref<5xf32>, %out: memref<5x32xf32>) {
  tile.launch (%b = 3 : block, %c = 2 : block, %t = 32 : thread) {
    %row = loop.index [%b * 2 + %c]
    loop.where %row < 5
    %a = loop.load %x[%row] : memref<5xf32>
    loop.store %a, %out[%row, %t] : memref<5x32xf32>
  }
  func.return
}

// -----

// Subscripts that are data: the address is computed after the load, and inactive points do not follow it.
// CHECK-LABEL: kernel.func @gather(%idx: memref<100xi32>, %x: memref<64xf32>, %out: memref<100xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[D:.*]] = kernel.alloc : memref<4xi32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 4 %idx[%[[T]] * 4] to %[[D]][0] where (%[[T]] * 4 < 100) : memref<100xi32> to memref<4xi32, #tile.memory<register>>
// CHECK-NEXT:    %[[AT:.*]] = kernel.alloc : memref<4xindex, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[D_1:.*]] = loop.load %[[D]][%[[V]]] : memref<4xi32, #tile.memory<register>>
// CHECK-NEXT:      %[[AT_1:.*]] = arith.index_cast %[[D_1]] : i32 to index
// CHECK-NEXT:      loop.store %[[AT_1]], %[[AT]][%[[V]]] : memref<4xindex, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V_1:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[AT_2:.*]] = loop.load %[[AT]][%[[V_1]]] : memref<4xindex, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 1 %x[%[[AT_2]] - 1] to %[[A]][%[[V_1]]] where (%[[T]] * 4 + %[[V_1]] < 100) : memref<64xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.guard where (%[[T]] * 4 < 100) {
// CHECK-NEXT:      kernel.move 4 %[[A]][0] to %out[%[[T]] * 4] : memref<4xf32, #tile.memory<register>> to memref<100xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_gather(%idx: memref<100xi32>, %x: memref<64xf32>, %out: memref<100xf32>) {
// CHECK-NEXT:    kernel.launch @gather(%idx, %x, %out) : memref<100xi32>, memref<64xf32>, memref<100xf32>
func.func @gather(%idx: memref<100xi32>, %x: memref<64xf32>, %out: memref<100xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %k = loop.index [%t * 4 + %v]
    loop.where %k < 100
    %d = loop.load %idx[%k] : memref<100xi32>
    %at = arith.index_cast %d : i32 to index
    %before = loop.index [%at - 1]
    %a = loop.load %x[%before] : memref<64xf32>
    loop.store %a, %out[%k] : memref<100xf32>
  }
  func.return
}

// -----

// Axes of extent 1 cost nothing.
// CHECK-LABEL: kernel.func @ones(%x: memref<1x8xf32>, %out: memref<1x8xf32>) blocks(%block = 1) threads(%thread = 8) {
// CHECK-NEXT:    %[[B:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[ONE:.*]] = loop.index [0]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<1xf32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 1 %x[%[[B]], %[[T]] + %[[ONE]]] to %[[A]][0] : memref<1x8xf32> to memref<1xf32, #tile.memory<register>>
// CHECK-NEXT:    %[[A_1:.*]] = loop.load %[[A]][0] : memref<1xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[A_1]], %out[%[[B]], %[[T]]] : memref<1x8xf32>
// CHECK-LABEL: func.func @run_ones(%x: memref<1x8xf32>, %out: memref<1x8xf32>) {
// CHECK-NEXT:    kernel.launch @ones(%x, %out) : memref<1x8xf32>, memref<1x8xf32>
func.func @ones(%x: memref<1x8xf32>, %out: memref<1x8xf32>) {
  tile.launch (%b = 1 : block, %t = 8 : thread, %one = 1 : thread, %v = 1 : register) {
    %a = loop.load %x[%b, %t + %v + %one] : memref<1x8xf32>
    loop.store %a, %out[%b, %t] : memref<1x8xf32>
  }
  func.return
}

// -----

// A launch without points is a kernel without CTAs.
// CHECK-LABEL: kernel.func @none(%x: memref<0x8xf32>, %out: memref<0x8xf32>) blocks(%block = 0) threads(%thread = 8) {
// CHECK-NEXT:    %[[I:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 1 %x[%[[I]], %[[T]]] to %[[A]][] where (%[[I]] < 0) : memref<0x8xf32> to memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[A_1:.*]] = loop.load %[[A]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.store %[[A_1]], %out[%[[I]], %[[T]]] : memref<0x8xf32>
// CHECK-LABEL: func.func @run_none(%x: memref<0x8xf32>, %out: memref<0x8xf32>) {
// CHECK-NEXT:    kernel.launch @none(%x, %out) : memref<0x8xf32>, memref<0x8xf32>
func.func @none(%x: memref<0x8xf32>, %out: memref<0x8xf32>) {
  tile.launch (%i = 0 : block, %t = 8 : thread) {
    %a = loop.load %x[%i, %t] : memref<0x8xf32>
    loop.store %a, %out[%i, %t] : memref<0x8xf32>
  }
  func.return
}

// -----

// A dimension of one element hides no neighbours.
// CHECK-LABEL: kernel.func @column(
// CHECK:         kernel.move 4 %x[%{{.*}} * 4, 0] to %{{.*}}[0] : memref<128x1xf32> to memref<4xf32, #tile.memory<register>>
// CHECK:         kernel.move 4 %{{.*}}[0] to %out[0, %{{.*}} * 4, 0] : memref<4xf32, #tile.memory<register>> to memref<1x128x1xf32>
func.func @column(%x: memref<128x1xf32>, %out: memref<1x128x1xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %k = loop.index [%t * 4 + %v]
    %a = loop.load %x[%k, 0] : memref<128x1xf32>
    %b = arith.addf %a, %a : f32
    loop.store %b, %out[0, %k, 0] : memref<1x128x1xf32>
  }
  func.return
}
