// RUN: deplodock-opt %s -p lower-copies --split-input-file | filecheck %s
// What is printed reads back.
// RUN: deplodock-opt %s -p lower-copies --split-input-file | deplodock-opt --split-input-file | filecheck %s

// A ring of barriers: a step is a group of asynchronous copies, which the wait counts.
// CHECK-LABEL: func.func @ring
// CHECK-NEXT:      tile.launch (%thread = 32 : thread) attributes {expanded} {
// CHECK-NEXT:        %t = loop.index [%thread]
// CHECK-NEXT:        %xs = kernel.alloc : memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.guard where (%thread < 8) {
// CHECK-NEXT:          kernel.move 4 async %x[%thread * 4] to %xs[0, %thread * 4] : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.commit_group
// CHECK-NEXT:        %sum = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        loop.store %0, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        loop.for %k = 0 to 8 {
// CHECK-NEXT:          kernel.wait_group 0
// CHECK-NEXT:          loop.guard where (%k < 7) {
// CHECK-NEXT:            loop.guard where (%thread < 8) {
// CHECK-NEXT:              kernel.move 4 async %x[%k * 32 + %thread * 4 + 32] to %xs[(%k + 1) mod 2, %thread * 4] : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:            }
// CHECK-NEXT:          }
// CHECK-NEXT:          kernel.commit_group
// CHECK-NEXT:          %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:          %1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %2 = arith.addf %1, %v : f32
// CHECK-NEXT:          loop.store %2, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        }
// CHECK-NEXT:        %sum_1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        loop.store %sum_1, %out[%t] : memref<32xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
func.func @ring(%x: memref<256xf32>, %out: memref<32xf32>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %ring = tile.ring 2
    %xs = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
    %sum = kernel.alloc : memref<f32, #tile.memory<register>>
    %0 = arith.constant 0.000000e+00 : f32
    loop.store %0, %sum[] : memref<f32, #tile.memory<register>>
    loop.for %k = 0 to 8 {
      tile.wait %ring[%k]
      tile.copy %x[%k * 32 + 32 + d0] to %xs at %ring[%k + 1] async where (%k + 1 < 8) : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
      %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      %1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
      %2 = arith.addf %1, %v : f32
      loop.store %2, %sum[] : memref<f32, #tile.memory<register>>
    }
    %sum_1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
    loop.store %sum_1, %out[%t] : memref<32xf32>
  }
  func.return
}

// -----

// A slab that the loop alone reads is of the group of the ring's first step, so that its copies are awaited with those.
// CHECK-LABEL: func.func @first_group
// CHECK:             kernel.move 4 async %w[%thread * 4] to %ws[%thread * 4]
// CHECK-NOT:         kernel.wait_group
// CHECK:             kernel.move 4 async %x[%thread * 4] to %xs[0, %thread * 4]
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.commit_group
// CHECK-NEXT:      loop.for %k = 0 to 8 {
// CHECK-NEXT:        kernel.wait_group 0
// One that is read before the loop is waited for at once.
// CHECK-LABEL: func.func @read_before
// CHECK:             kernel.move 4 async %w[%thread * 4] to %ws[%thread * 4]
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.commit_group
// CHECK-NEXT:      kernel.wait_group 0
func.func @first_group(%x: memref<256xf32>, %w: memref<32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %ws = tile.stage %w[d0] async : memref<32xf32> to memref<32xf32, #tile.memory<shared>>
    %ring = tile.ring 2
    %xs = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
    loop.for %k = 0 to 8 {
      tile.wait %ring[%k]
      tile.copy %x[%k * 32 + 32 + d0] to %xs at %ring[%k + 1] async where (%k + 1 < 8) : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
      %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      %u = loop.load %ws[%t] : memref<32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      %1 = arith.mulf %u, %v : f32
      loop.store %1, %out[%k, %t] : memref<8x32xf32>
    }
  }
  func.return
}
func.func @read_before(%x: memref<256xf32>, %w: memref<32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %ws = tile.stage %w[d0] async : memref<32xf32> to memref<32xf32, #tile.memory<shared>>
    %ring = tile.ring 2
    %xs = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
    %r = loop.load %ws[%t] : memref<32xf32, #tile.memory<shared>>
    loop.store %r, %out[0, %t] : memref<8x32xf32>
    loop.for %k = 0 to 8 {
      tile.wait %ring[%k]
      tile.copy %x[%k * 32 + 32 + d0] to %xs at %ring[%k + 1] async where (%k + 1 < 8) : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
      %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      %u = loop.load %ws[%t] : memref<32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      %1 = arith.mulf %u, %v : f32
      loop.store %1, %out[%k, %t] : memref<8x32xf32>
    }
  }
  func.return
}

// -----

// A slab is copied by all threads, in order; subscripts that only copies used are gone.
// CHECK-LABEL: func.func @stage
// CHECK-NEXT:      tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
// CHECK-NEXT:        %t = loop.index [%thread]
// CHECK-NEXT:        %xs = kernel.alloc : memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        kernel.move 4 %x[%b * 4 + %thread floordiv 8, %thread mod 8 * 4] to %xs[%thread floordiv 8, %thread mod 8 * 4] : memref<8x32xf32> to memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        %v = loop.load %xs[3, %t] : memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.store %v, %out[%b * 4, %t] : memref<8x32xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
func.func @stage(%x: memref<8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %row = loop.index [%b * 4]
    %xs = tile.stage %x[%row + d0, d1] : memref<8x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    %v = loop.load %xs[3, %t] : memref<4x32xf32, #tile.memory<shared>>
    loop.store %v, %out[%b * 4, %t] : memref<8x32xf32>
  }
  func.return
}

// -----

// Boxes are issued by the first thread; the map of their source stands before the launch.
// CHECK-LABEL: func.func @boxes
// CHECK-NEXT:      %x_map = kernel.tensor_map %x : !kernel.tensor_map<memref<8x32xf32>, box [4, 32]>
// CHECK-NEXT:      tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
// CHECK-NEXT:        %t = loop.index [%thread]
// CHECK-NEXT:        %xs = kernel.alloc : memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        %full = kernel.mbarrier 1 arrivals 1
// CHECK-NEXT:        loop.guard where (%thread < 1) {
// CHECK-NEXT:          kernel.arrive %full[0] expect 512
// CHECK-NEXT:          kernel.tma_load %x_map[%b * 4, 0] to %xs[0, 0] signal %full[0] : !kernel.tensor_map<memref<8x32xf32>, box [4, 32]> to memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.wait_phase %full[0], 0
// CHECK-NEXT:        %v = loop.load %xs[3, %t] : memref<4x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.store %v, %out[%b, %t] : memref<8x32xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
func.func @boxes(%x: memref<8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%b = 2 : block, %thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %xs = tile.stage %x[%b * 4 + d0, d1] tma : memref<8x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    %v = loop.load %xs[3, %t] : memref<4x32xf32, #tile.memory<shared>>
    loop.store %v, %out[%b, %t] : memref<8x32xf32>
  }
  func.return
}

// -----

// Boxes are waited for where they are read, behind other copies.
// CHECK-LABEL: func.func @awaited_by_the_reader
// CHECK:             kernel.tma_load %x_map[0, 0] to %xs[0, 0]
// CHECK:             kernel.tma_load %y_map[0, 0] to %ys[0, 0]
// CHECK:             kernel.wait_phase %full[0], 0
// CHECK-NEXT:        loop.for %k = 0 to 4 {
// CHECK-NEXT:          %v = loop.load %xs[%k, %t]
// CHECK:             kernel.wait_phase %full_1[0], 0
// CHECK-NEXT:        %w = loop.load %ys[3, %t]
func.func @awaited_by_the_reader(%x: memref<4x32xf32>, %y: memref<4x32xf32>, %out: memref<5x32xf32>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %xs = tile.stage %x[d0, d1] tma : memref<4x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    %ys = tile.stage %y[d0, d1] tma : memref<4x32xf32> to memref<4x32xf32, #tile.memory<shared>>
    loop.for %k = 0 to 4 {
      %v = loop.load %xs[%k, %t] : memref<4x32xf32, #tile.memory<shared>>
      loop.store %v, %out[%k, %t] : memref<5x32xf32>
    }
    %w = loop.load %ys[3, %t] : memref<4x32xf32, #tile.memory<shared>>
    loop.store %w, %out[4, %t] : memref<5x32xf32>
  }
  func.return
}

// -----

// A ring of phases: the copies of a step arrive at the slot's full barrier, the warps that have read it at the empty one.
// CHECK-LABEL: func.func @phases
// CHECK-NEXT:      tile.launch (%thread = 32 : thread) attributes {expanded} {
// CHECK-NEXT:        %t = loop.index [%thread]
// CHECK-NEXT:        %full = kernel.mbarrier 2 arrivals 32
// CHECK-NEXT:        %empty = kernel.mbarrier 2 arrivals 1
// CHECK-NEXT:        %xs = kernel.alloc : memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.guard where (%thread < 8) {
// CHECK-NEXT:          kernel.move 4 async %x[%thread * 4] to %xs[0, %thread * 4] : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:        }
// CHECK-NEXT:        kernel.arrive_copies %full[0]
// CHECK-NEXT:        %sum = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        loop.store %0, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        loop.for %k = 0 to 8 {
// CHECK-NEXT:          loop.guard where (%k < 7) {
// CHECK-NEXT:            kernel.wait_phase %empty[(%k + 1) mod 2], ((%k + 1) floordiv 2 + 1) mod 2
// CHECK-NEXT:            loop.guard where (%thread < 8) {
// CHECK-NEXT:              kernel.move 4 async %x[%k * 32 + %thread * 4 + 32] to %xs[(%k + 1) mod 2, %thread * 4] : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:            }
// CHECK-NEXT:            kernel.arrive_copies %full[(%k + 1) mod 2]
// CHECK-NEXT:          }
// CHECK-NEXT:          kernel.wait_phase %full[%k mod 2], %k floordiv 2 mod 2
// CHECK-NEXT:          %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
// CHECK-NEXT:          kernel.arrive warp %empty[%k mod 2]
// CHECK-NEXT:          %1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %2 = arith.addf %1, %v : f32
// CHECK-NEXT:          loop.store %2, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        }
// CHECK-NEXT:        %sum_1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        loop.store %sum_1, %out[%t] : memref<32xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
func.func @phases(%x: memref<256xf32>, %out: memref<32xf32>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %ring = tile.ring 2 mbarrier
    %xs = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    tile.copy %x[d0] to %xs at %ring[0] async : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
    %sum = kernel.alloc : memref<f32, #tile.memory<register>>
    %0 = arith.constant 0.000000e+00 : f32
    loop.store %0, %sum[] : memref<f32, #tile.memory<register>>
    loop.for %k = 0 to 8 {
      tile.copy %x[%k * 32 + 32 + d0] to %xs at %ring[%k + 1] async where (%k + 1 < 8) : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
      tile.wait %ring[%k]
      %v = loop.load %xs[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      %1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
      %2 = arith.addf %1, %v : f32
      loop.store %2, %sum[] : memref<f32, #tile.memory<register>>
    }
    %sum_1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
    loop.store %sum_1, %out[%t] : memref<32xf32>
  }
  func.return
}

// -----

// A thread loads a few elements at once, and stores them, before the next few: here 5 of its 15, since rows are odd.
// CHECK-LABEL: func.func @rounds
// CHECK:             loop.for %r = 0 to 3 {
// CHECK-NEXT:          loop.for %c = 0 to 5 unroll {
// CHECK-NEXT:            kernel.move 1 %x[
func.func @rounds(%x: memref<32x15xf16>, %out: memref<32xf16>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %xs = tile.stage %x[d0, d1] : memref<32x15xf16> to memref<32x15xf16, #tile.memory<shared>>
    %v = loop.load %xs[0, 0] : memref<32x15xf16, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<32xf16>
  }
  func.return
}

// -----

// One at a time, where some threads have one less.
// CHECK-LABEL: func.func @uneven
// CHECK:             loop.for %c = 0 to 13 {
// CHECK-NEXT:          loop.guard where (%c * 32 + %thread < 403) {
// CHECK-NEXT:            kernel.move 1 %x[
func.func @uneven(%x: memref<13x31xf16>, %out: memref<32xf16>) {
  tile.launch (%thread = 32 : thread) attributes {expanded} {
    %t = loop.index [%thread]
    %xs = tile.stage %x[d0, d1] : memref<13x31xf16> to memref<13x31xf16, #tile.memory<shared>>
    %v = loop.load %xs[0, 0] : memref<13x31xf16, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<32xf16>
  }
  func.return
}
