// Each contraction whose steps CTAs cannot share is left as it is, for its reason.
// RUN: deplodock-opt %s -p stream-matmul-k 2>&1 | filecheck %s

// CHECK-DAG: skipped at @other_slabs: the launch has slabs besides those on the ring of the contraction
func.func @other_slabs(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    %y = tile.stage %x[d0, d1] : memref<8x32xf32> to memref<8x32xf32, #tile.memory<shared>>
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @inactive_tiles: some tiles may have no active point, and their steps would count
func.func @inactive_tiles(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    loop.where %n_b < 2
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @read_before: loop.load of %before stands before the contraction, and a CTA goes on from tile to tile after it
func.func @read_before(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %before = loop.load %out[%m, %n] : memref<8x24xf32>
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    %after = arith.addf %acc, %before : f32
    loop.store %after, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @masked_steps: the loop over %ko has a loop.where of its own, so not every step counts
func.func @masked_steps(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      loop.where %ko < 3
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @walked_slot: where %u lies in a slot depends on %ko
func.func @walked_slot(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, (%ki + %ko) mod 8] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @one_step: a copy before the loop is of one step alone
func.func @one_step(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    tile.copy %x[d0, d1] to %x_smem at %ring[0] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    tile.copy %w[%n_b * 8 + d0, d1] to %w_smem at %ring[0] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 8 + d1] to %x_smem at %ring[%ko + 1] async where (%ko + 1 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 8 + d1] to %w_smem at %ring[%ko + 1] async where (%ko + 1 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @no_bound: the bound of the loop over %ko is not constant
func.func @no_bound(%x: memref<8x32xf32>, %w: memref<24x32xf32>, %out: memref<8x24xf32>) {
  tile.launch (%n_b = 3 : block, %m = 8 : thread, %n_t = 8 : thread) {
    %n = loop.index [%n_b * 8 + %n_t]
    %ring = tile.ring 3
    %x_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    %w_smem = tile.alloc : memref<3x8x8xf32, #tile.memory<shared>>
    loop.for %p = 0 to 2 unroll {
      tile.copy %x[d0, %p * 8 + d1] to %x_smem at %ring[%p] async : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %p * 8 + d1] to %w_smem at %ring[%p] async : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %ko = 0 to %n_b + 2 : f32 {
      tile.wait %ring[%ko]
      tile.copy %x[d0, %ko * 8 + 16 + d1] to %x_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<8x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      tile.copy %w[%n_b * 8 + d0, %ko * 8 + 16 + d1] to %w_smem at %ring[%ko + 2] async where (%ko + 2 < 4) : memref<24x32xf32> to memref<3x8x8xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %u = loop.load %x_smem[%ko mod 3, %m, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %v = loop.load %w_smem[%ko mod 3, %n_t, %ki] : memref<3x8x8xf32, #tile.memory<shared>>
        %p_1 = arith.mulf %u, %v : f32
        loop.yield %p_1 : f32
      }
      tile.release %ring[%ko]
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<8x24xf32>
  }
  func.return
}
