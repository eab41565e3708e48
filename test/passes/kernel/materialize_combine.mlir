// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// A warp folds by shuffles.
// CHECK-LABEL: kernel.func @warp(%x: memref<4x32xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 128) {
// CHECK-NEXT:    %[[ROW:.*]] = loop.index [%thread floordiv 32]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread mod 32]
// CHECK-NEXT:    %[[S:.*]] = loop.load %x[%[[ROW]], %[[T]]] : memref<4x32xf32>
// CHECK-NEXT:    %[[C0:.*]] = kernel.shuffle_xor %[[S]], 16 : f32
// CHECK-NEXT:    %[[C1:.*]] = arith.addf %[[S]], %[[C0]] : f32
// CHECK-NEXT:    %[[C2:.*]] = kernel.shuffle_xor %[[C1]], 8 : f32
// CHECK-NEXT:    %[[C3:.*]] = arith.addf %[[C1]], %[[C2]] : f32
// CHECK-NEXT:    %[[C4:.*]] = kernel.shuffle_xor %[[C3]], 4 : f32
// CHECK-NEXT:    %[[C5:.*]] = arith.addf %[[C3]], %[[C4]] : f32
// CHECK-NEXT:    %[[C6:.*]] = kernel.shuffle_xor %[[C5]], 2 : f32
// CHECK-NEXT:    %[[C7:.*]] = arith.addf %[[C5]], %[[C6]] : f32
// CHECK-NEXT:    %[[C8:.*]] = kernel.shuffle_xor %[[C7]], 1 : f32
// CHECK-NEXT:    %[[S_1:.*]] = arith.addf %[[C7]], %[[C8]] : f32
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_1]], %out[%[[ROW]]] : memref<4xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_warp(%x: memref<4x32xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    kernel.launch @warp(%x, %out) : memref<4x32xf32>, memref<4xf32>
func.func @warp(%x: memref<4x32xf32>, %out: memref<4xf32>) {
  tile.launch (%row = 4 : thread, %t = 32 : thread) {
    %a = loop.load %x[%row, %t] : memref<4x32xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%row] : memref<4xf32>
  }
  func.return
}

// -----

// A part of a warp needs fewer steps.
// CHECK-LABEL: kernel.func @lanes(%x: memref<8x4xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[ROW:.*]] = loop.index [%thread floordiv 4]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread mod 4]
// CHECK-NEXT:    %[[S:.*]] = loop.load %x[%[[ROW]], %[[T]]] : memref<8x4xf32>
// CHECK-NEXT:    %[[C0:.*]] = kernel.shuffle_xor %[[S]], 2 : f32
// CHECK-NEXT:    %[[C1:.*]] = arith.maximumf %[[S]], %[[C0]] : f32
// CHECK-NEXT:    %[[C2:.*]] = kernel.shuffle_xor %[[C1]], 1 : f32
// CHECK-NEXT:    %[[S_1:.*]] = arith.maximumf %[[C1]], %[[C2]] : f32
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_1]], %out[%[[ROW]]] : memref<8xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_lanes(%x: memref<8x4xf32>, %out: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @lanes(%x, %out) : memref<8x4xf32>, memref<8xf32>
func.func @lanes(%x: memref<8x4xf32>, %out: memref<8xf32>) {
  tile.launch (%row = 8 : thread, %t = 4 : thread) {
    %a = loop.load %x[%row, %t] : memref<8x4xf32>
    %s = tile.combine {arith.maximumf} %a over (%t) : f32
    loop.store %s, %out[%row] : memref<8xf32>
  }
  func.return
}

// -----

// Several warps exchange their folds in shared memory; all threads fold them in the same order.
// CHECK-LABEL: kernel.func @warps(%x: memref<4x128xf32>, %out: memref<4xf32>) blocks(%block = 4) threads(%thread = 128) {
// CHECK-NEXT:    %[[ROW:.*]] = loop.index [%block]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[S:.*]] = loop.load %x[%[[ROW]], %[[T]]] : memref<4x128xf32>
// CHECK-NEXT:    %[[C0:.*]] = kernel.shuffle_xor %[[S]], 16 : f32
// CHECK-NEXT:    %[[C1:.*]] = arith.addf %[[S]], %[[C0]] : f32
// CHECK-NEXT:    %[[C2:.*]] = kernel.shuffle_xor %[[C1]], 8 : f32
// CHECK-NEXT:    %[[C3:.*]] = arith.addf %[[C1]], %[[C2]] : f32
// CHECK-NEXT:    %[[C4:.*]] = kernel.shuffle_xor %[[C3]], 4 : f32
// CHECK-NEXT:    %[[C5:.*]] = arith.addf %[[C3]], %[[C4]] : f32
// CHECK-NEXT:    %[[C6:.*]] = kernel.shuffle_xor %[[C5]], 2 : f32
// CHECK-NEXT:    %[[C7:.*]] = arith.addf %[[C5]], %[[C6]] : f32
// CHECK-NEXT:    %[[C8:.*]] = kernel.shuffle_xor %[[C7]], 1 : f32
// CHECK-NEXT:    %[[S_1:.*]] = arith.addf %[[C7]], %[[C8]] : f32
// CHECK-NEXT:    %[[S_PART:.*]] = kernel.alloc : memref<4xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.guard where (%thread mod 32 < 1) {
// CHECK-NEXT:      loop.store %[[S_1]], %[[S_PART]][%thread floordiv 32] : memref<4xf32, #tile.memory<shared>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_2:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C9:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C9]], %[[S_2]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[WARP:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[C10:.*]] = loop.load %[[S_PART]][%[[WARP]]] : memref<4xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[C11:.*]] = loop.load %[[S_2]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C12:.*]] = arith.addf %[[C11]], %[[C10]] : f32
// CHECK-NEXT:      loop.store %[[C12]], %[[S_2]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_3:.*]] = loop.load %[[S_2]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_3]], %out[%[[ROW]]] : memref<4xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_warps(%x: memref<4x128xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    kernel.launch @warps(%x, %out) : memref<4x128xf32>, memref<4xf32>
func.func @warps(%x: memref<4x128xf32>, %out: memref<4xf32>) {
  tile.launch (%row = 4 : block, %t = 128 : thread) {
    %a = loop.load %x[%row, %t] : memref<4x128xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%row] : memref<4xf32>
  }
  func.return
}

// -----

// Groups that no warp divides go through shared memory.
// CHECK-LABEL: kernel.func @odd(%x: memref<8x12xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 96) {
// CHECK-NEXT:    %[[ROW:.*]] = loop.index [%thread floordiv 12]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread mod 12]
// CHECK-NEXT:    %[[S:.*]] = loop.load %x[%[[ROW]], %[[T]]] : memref<8x12xf32>
// CHECK-NEXT:    %[[S_PART:.*]] = kernel.alloc : memref<96xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %[[S]], %[[S_PART]][%thread] : memref<96xf32, #tile.memory<shared>>
// CHECK-NEXT:    %[[S_1:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[T_1:.*]] = 0 to 12 unroll {
// CHECK-NEXT:      %[[C1:.*]] = loop.load %[[S_PART]][%[[ROW]] * 12 + %[[T_1]]] : memref<96xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[C2:.*]] = loop.load %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C3:.*]] = arith.addf %[[C2]], %[[C1]] : f32
// CHECK-NEXT:      loop.store %[[C3]], %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_2:.*]] = loop.load %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_2]], %out[%[[ROW]]] : memref<8xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_odd(%x: memref<8x12xf32>, %out: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @odd(%x, %out) : memref<8x12xf32>, memref<8xf32>
func.func @odd(%x: memref<8x12xf32>, %out: memref<8xf32>) {
  tile.launch (%row = 8 : thread, %t = 12 : thread) {
    %a = loop.load %x[%row, %t] : memref<8x12xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%row] : memref<8xf32>
  }
  func.return
}

// -----

// So do those whose threads are in several warps, and are not neighbours.
// CHECK-LABEL: kernel.func @apart(%x: memref<8x8xf32>, %out: memref<8xf32>) blocks(%block = 1) threads(%thread = 64) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread floordiv 8]
// CHECK-NEXT:    %[[COLUMN:.*]] = loop.index [%thread mod 8]
// CHECK-NEXT:    %[[S:.*]] = loop.load %x[%[[T]], %[[COLUMN]]] : memref<8x8xf32>
// CHECK-NEXT:    %[[S_PART:.*]] = kernel.alloc : memref<64xf32, #tile.memory<shared>>
// CHECK-NEXT:    loop.store %[[S]], %[[S_PART]][%thread] : memref<64xf32, #tile.memory<shared>>
// CHECK-NEXT:    %[[S_1:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[T_1:.*]] = 0 to 8 unroll {
// CHECK-NEXT:      %[[C1:.*]] = loop.load %[[S_PART]][%[[T_1]] * 8 + %[[COLUMN]]] : memref<64xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[C2:.*]] = loop.load %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C3:.*]] = arith.addf %[[C2]], %[[C1]] : f32
// CHECK-NEXT:      loop.store %[[C3]], %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_2:.*]] = loop.load %[[S_1]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_2]], %out[%[[COLUMN]]] : memref<8xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_apart(%x: memref<8x8xf32>, %out: memref<8xf32>) {
// CHECK-NEXT:    kernel.launch @apart(%x, %out) : memref<8x8xf32>, memref<8xf32>
func.func @apart(%x: memref<8x8xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread, %column = 8 : thread) {
    %a = loop.load %x[%t, %column] : memref<8x8xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%column] : memref<8xf32>
  }
  func.return
}

// -----

// So do those that are as many as a warp has lanes, one in each of several warps.
// CHECK-LABEL: kernel.func @warps(
// CHECK-NOT:     shuffle
// CHECK:         kernel.launch @warps
func.func @warps(%x: memref<32x32xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread, %column = 32 : thread) {
    %a = loop.load %x[%t, %column] : memref<32x32xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%column] : memref<32xf32>
  }
  func.return
}

// -----

// Lanes that are equally far apart are folded by shuffles, too.
// CHECK-LABEL: kernel.func @spaced(
// CHECK:         %[[A:.*]] = kernel.shuffle_xor %[[S:.*]], 16 : f32
// CHECK-NEXT:    %[[B:.*]] = arith.addf %[[S]], %[[A]] : f32
// CHECK-NEXT:    %[[C:.*]] = kernel.shuffle_xor %[[B]], 8 : f32
// CHECK-NEXT:    %{{.*}} = arith.addf %[[B]], %[[C]] : f32
// CHECK-NOT:     shared
// CHECK:         kernel.launch @spaced
func.func @spaced(%x: memref<4x8xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 4 : thread, %column = 8 : thread) {
    %a = loop.load %x[%t, %column] : memref<4x8xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%column] : memref<8xf32>
  }
  func.return
}

// -----

// A thread folds its registers first, the inactive ones as the identity.
// CHECK-LABEL: kernel.func @registers(%x: memref<100xf32>, %out: memref<f32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 4 %x[%[[T]] * 4] to %[[A]][0] where (%[[T]] * 4 < 100) : memref<100xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    loop.store %[[C0]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[A_1:.*]] = loop.load %[[A]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[C1:.*]] = loop.inside where (%[[T]] * 4 + %[[V]] < 100)
// CHECK-NEXT:      %[[C2:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[C3:.*]] = arith.select %[[C1]], %[[A_1]], %[[C2]] : f32
// CHECK-NEXT:      %[[C4:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:      %[[C5:.*]] = arith.addf %[[C4]], %[[C3]] : f32
// CHECK-NEXT:      loop.store %[[C5]], %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = loop.load %[[S]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    %[[C6:.*]] = kernel.shuffle_xor %[[S_1]], 16 : f32
// CHECK-NEXT:    %[[C7:.*]] = arith.addf %[[S_1]], %[[C6]] : f32
// CHECK-NEXT:    %[[C8:.*]] = kernel.shuffle_xor %[[C7]], 8 : f32
// CHECK-NEXT:    %[[C9:.*]] = arith.addf %[[C7]], %[[C8]] : f32
// CHECK-NEXT:    %[[C10:.*]] = kernel.shuffle_xor %[[C9]], 4 : f32
// CHECK-NEXT:    %[[C11:.*]] = arith.addf %[[C9]], %[[C10]] : f32
// CHECK-NEXT:    %[[C12:.*]] = kernel.shuffle_xor %[[C11]], 2 : f32
// CHECK-NEXT:    %[[C13:.*]] = arith.addf %[[C11]], %[[C12]] : f32
// CHECK-NEXT:    %[[C14:.*]] = kernel.shuffle_xor %[[C13]], 1 : f32
// CHECK-NEXT:    %[[S_2:.*]] = arith.addf %[[C13]], %[[C14]] : f32
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      loop.store %[[S_2]], %out[] : memref<f32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_registers(%x: memref<100xf32>, %out: memref<f32>) {
// CHECK-NEXT:    kernel.launch @registers(%x, %out) : memref<100xf32>, memref<f32>
func.func @registers(%x: memref<100xf32>, %out: memref<f32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %k = loop.index [%t * 4 + %v]
    loop.where %k < 100
    %a = loop.load %x[%k] : memref<100xf32>
    %s = tile.combine {arith.addf} %a over (%t, %v) : f32
    loop.store %s, %out[] : memref<f32>
  }
  func.return
}

// -----

// Register axes that are not folded keep a fold each.
// CHECK-LABEL: kernel.func @kept(%x: memref<32x4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    kernel.move 4 %x[%[[T]], 0] to %[[A]][0] : memref<32x4xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[A_1:.*]] = loop.load %[[A]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      loop.store %[[A_1]], %[[S]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V_1:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[C0:.*]] = loop.load %[[S]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[C1:.*]] = kernel.shuffle_xor %[[C0]], 16 : f32
// CHECK-NEXT:      %[[C2:.*]] = arith.addf %[[C0]], %[[C1]] : f32
// CHECK-NEXT:      %[[C3:.*]] = kernel.shuffle_xor %[[C2]], 8 : f32
// CHECK-NEXT:      %[[C4:.*]] = arith.addf %[[C2]], %[[C3]] : f32
// CHECK-NEXT:      %[[C5:.*]] = kernel.shuffle_xor %[[C4]], 4 : f32
// CHECK-NEXT:      %[[C6:.*]] = arith.addf %[[C4]], %[[C5]] : f32
// CHECK-NEXT:      %[[C7:.*]] = kernel.shuffle_xor %[[C6]], 2 : f32
// CHECK-NEXT:      %[[C8:.*]] = arith.addf %[[C6]], %[[C7]] : f32
// CHECK-NEXT:      %[[C9:.*]] = kernel.shuffle_xor %[[C8]], 1 : f32
// CHECK-NEXT:      %[[C10:.*]] = arith.addf %[[C8]], %[[C9]] : f32
// CHECK-NEXT:      loop.store %[[C10]], %[[S_1]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      kernel.move 4 %[[S_1]][0] to %out[0] : memref<4xf32, #tile.memory<register>> to memref<4xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_kept(%x: memref<32x4xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    kernel.launch @kept(%x, %out) : memref<32x4xf32>, memref<4xf32>
func.func @kept(%x: memref<32x4xf32>, %out: memref<4xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    %a = loop.load %x[%t, %v] : memref<32x4xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%v] : memref<4xf32>
  }
  func.return
}

// -----

// A value that does not vary along a register axis does once the axis decides which points are folded.
// CHECK-LABEL: kernel.func @counted(%x: memref<32xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 32) {
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread]
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[T]]] : memref<32xf32>
// CHECK-NEXT:    %[[S:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[C0:.*]] = loop.inside where (%[[T]] + %[[V]] < 32)
// CHECK-NEXT:      %[[C1:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[C2:.*]] = arith.select %[[C0]], %[[A]], %[[C1]] : f32
// CHECK-NEXT:      loop.store %[[C2]], %[[S]][%[[V]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[S_1:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %[[V_1:.*]] = 0 to 4 unroll {
// CHECK-NEXT:      %[[C3:.*]] = loop.load %[[S]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[C4:.*]] = kernel.shuffle_xor %[[C3]], 16 : f32
// CHECK-NEXT:      %[[C5:.*]] = arith.addf %[[C3]], %[[C4]] : f32
// CHECK-NEXT:      %[[C6:.*]] = kernel.shuffle_xor %[[C5]], 8 : f32
// CHECK-NEXT:      %[[C7:.*]] = arith.addf %[[C5]], %[[C6]] : f32
// CHECK-NEXT:      %[[C8:.*]] = kernel.shuffle_xor %[[C7]], 4 : f32
// CHECK-NEXT:      %[[C9:.*]] = arith.addf %[[C7]], %[[C8]] : f32
// CHECK-NEXT:      %[[C10:.*]] = kernel.shuffle_xor %[[C9]], 2 : f32
// CHECK-NEXT:      %[[C11:.*]] = arith.addf %[[C9]], %[[C10]] : f32
// CHECK-NEXT:      %[[C12:.*]] = kernel.shuffle_xor %[[C11]], 1 : f32
// CHECK-NEXT:      %[[C13:.*]] = arith.addf %[[C11]], %[[C12]] : f32
// CHECK-NEXT:      loop.store %[[C13]], %[[S_1]][%[[V_1]]] : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.guard where (%[[T]] < 1) {
// CHECK-NEXT:      kernel.move 4 %[[S_1]][0] to %out[0] : memref<4xf32, #tile.memory<register>> to memref<4xf32>
// CHECK-NEXT:    }
// CHECK-LABEL: func.func @run_counted(%x: memref<32xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:    kernel.launch @counted(%x, %out) : memref<32xf32>, memref<4xf32>
func.func @counted(%x: memref<32xf32>, %out: memref<4xf32>) {
  tile.launch (%t = 32 : thread, %v = 4 : register) {
    loop.where %t + %v < 32
    %a = loop.load %x[%t] : memref<32xf32>
    %s = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %s, %out[%v] : memref<4xf32>
  }
  func.return
}

// -----

// A combiner whose sides are not alike folds in the order of the lanes, and the last lane gives its fold to all.
// CHECK-LABEL: kernel.func @first(
// CHECK:         %[[V1:.*]] = kernel.shuffle_xor %[[V:.*]], 1 : f32
// CHECK-NEXT:    %[[P1:.*]] = kernel.shuffle_xor %[[P:.*]], 1 : i64
// CHECK-NEXT:    arith.cmpf olt, %[[V]], %[[V1]] : f32
// CHECK:         kernel.shuffle_xor %{{.*}}, 2 : f32
// CHECK:         kernel.shuffle_last %{{.*}}, 4 : f32
// CHECK-NEXT:    kernel.shuffle_last %{{.*}}, 4 : i64
func.func @first(%x: memref<8x4xf32>, %out: memref<8xi64>) {
  tile.launch (%row = 8 : thread, %t = 4 : thread) {
    %a = loop.load %x[%row, %t] : memref<8x4xf32>
    %i = loop.index [%t]
    %p = arith.index_cast %i : index to i64
    %s, %place = tile.combine %a, %p over (%t) : f32, i64 combine (%a0: f32, %p0: i64, %a1: f32, %p1: i64) identity [0x7f800000 : f32, 9 : i64] {
      %less = arith.cmpf olt, %a1, %a0 : f32
      %m = arith.select %less, %a1, %a0 : f32
      %q = arith.select %less, %p1, %p0 : i64
      loop.yield %m, %q : f32, i64
    }
    loop.store %place, %out[%row] : memref<8xi64>
  }
  func.return
}
