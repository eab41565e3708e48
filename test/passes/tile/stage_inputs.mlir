// RUN: deplodock-opt %s -p tileify,stage-inputs -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP
// RUN: xdsl-opt %s -p tileify,stage-inputs 2>%t.stock | filecheck %s
// RUN: filecheck %s --input-file %t.stock --check-prefix=SKIP
// RUN: deplodock-opt %s -p tileify,stage-inputs --split-input-file --check-semantics
// RUN: deplodock-opt %s -p tileify,stage-inputs,stage-inputs | diff - %t.once
// RUN: not deplodock-opt %s -p 'tileify,stage-inputs{memory=texture}' 2>&1 | filecheck %s --check-prefix=WORD

// SKIP:      stage_inputs skipped at @rms_norm: %x: 2048 values of a thread exceed 32 registers; its slab of 262144 bytes exceeds the 232448 bytes of shared memory left to a CTA; %w: one warp reads it, so the L1 cache serves it
// SKIP:      stage_inputs skipped at @in_place: no input is read from global memory
// SKIP:      stage_inputs skipped at @once: %x: each element is read once by a CTA
// SKIP:      stage_inputs skipped at @registers_only: %x: a thread reads each element once
// SKIP:      stage_inputs skipped at @gathered: %idx: each element is read once by a CTA; %x: its subscripts are not affine in the axes
// SKIP:      stage_inputs skipped at @divergent: %x: not all threads run the loop over %j alike
// WORD:    error: pass 'stage-inputs{memory="texture"}': the option memory must be auto, shared or register, got texture

// Threads of several warps read x, bias and w more than once: shared slabs.
// CHECK-LABEL: func.func @relu_matmul(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>) {
// CHECK-NEXT:    tile.launch (%[[M:.*]] = 16 : thread, %[[N:.*]] = 16 : thread) {
// CHECK-NEXT:      %[[X_SMEM:.*]] = tile.stage %x[d0, d1] : memref<16x64xf32> to memref<16x64xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[BIAS_SMEM:.*]] = tile.stage %bias[d0] : memref<64xf32> to memref<64xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[W_SMEM:.*]] = tile.stage %w[d0, d1] : memref<64x16xf32> to memref<64x16xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[ACC:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 64 : f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %[[X_SMEM]][%[[M]], %[[K]]] : memref<16x64xf32, #tile.memory<shared>>
// CHECK-NEXT:        %[[B:.*]] = loop.load %[[BIAS_SMEM]][%[[K]]] : memref<64xf32, #tile.memory<shared>>
// CHECK-NEXT:        %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT:        %[[C:.*]] = loop.load %[[W_SMEM]][%[[K]], %[[N]]] : memref<64x16xf32, #tile.memory<shared>>
// CHECK-NEXT:        %[[P:.*]] = arith.mulf %[[S]], %[[C]] : f32
// CHECK-NEXT:        loop.yield %[[P]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[Y:.*]] = arith.maximumf %[[ACC]], %[[ZERO]] : f32
// CHECK-NEXT:      loop.store %[[Y]], %out[%[[M]], %[[N]]] : memref<16x16xf32>
// CHECK-NEXT:    }
func.func @relu_matmul(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>) {
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 16 {
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x64xf32>
        %b = loop.load %bias[%k] : memref<64xf32>
        %s = arith.addf %a, %b : f32
        %c = loop.load %w[%k, %n] : memref<64x16xf32>
        %p = arith.mulf %s, %c : f32
        loop.yield %p : f32
      }
      %zero = arith.constant 0.0 : f32
      %y = arith.maximumf %acc, %zero : f32
      loop.store %y, %out[%m, %n] : memref<16x16xf32>
    }
  }
  func.return
}

// -----

// A row for each thread: no slab of it fits, and one warp needs none of w.
// CHECK-LABEL: func.func @rms_norm(%x: memref<1x32x2048xf32>, %w: memref<2048xf32>, %out: memref<1x32x2048xf32>) {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 32 : thread) {
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 2048 : f32 {
// CHECK-NEXT:        %[[V:.*]] = loop.load %x[0, %[[I]], %[[K]]] : memref<1x32x2048xf32>
// CHECK-NEXT:        %[[SQ:.*]] = arith.mulf %[[V]], %[[V]] : f32
// CHECK-NEXT:        loop.yield %[[SQ]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[N:.*]] = arith.constant 2.048000e+03 : f32
// CHECK-NEXT:      %[[EPS:.*]] = arith.constant 1.1920929e-07 : f32
// CHECK-NEXT:      %[[MEAN:.*]] = arith.divf %[[SUM]], %[[N]] : f32
// CHECK-NEXT:      %[[SHIFTED:.*]] = arith.addf %[[MEAN]], %[[EPS]] : f32
// CHECK-NEXT:      %[[R:.*]] = math.rsqrt %[[SHIFTED]] : f32
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 2048 {
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %x[0, %[[I]], %[[J]]] : memref<1x32x2048xf32>
// CHECK-NEXT:        %[[G:.*]] = loop.load %w[%[[J]]] : memref<2048xf32>
// CHECK-NEXT:        %[[S:.*]] = arith.mulf %[[V_1]], %[[R]] : f32
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[S]], %[[G]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[0, %[[I]], %[[J]]] : memref<1x32x2048xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @rms_norm(%x: memref<1x32x2048xf32>, %w: memref<2048xf32>, %out: memref<1x32x2048xf32>) {
  loop.for %i = 0 to 32 {
    %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
      %v = loop.load %x[0, %i, %k] : memref<1x32x2048xf32>
      %sq = arith.mulf %v, %v : f32
      loop.yield %sq : f32
    }
    %n = arith.constant 2048.0 : f32
    %eps = arith.constant 1.1920929e-07 : f32
    %mean = arith.divf %sum, %n : f32
    %shifted = arith.addf %mean, %eps : f32
    %r = math.rsqrt %shifted : f32
    loop.for %j = 0 to 2048 {
      %v = loop.load %x[0, %i, %j] : memref<1x32x2048xf32>
      %g = loop.load %w[%j] : memref<2048xf32>
      %s = arith.mulf %v, %r : f32
      %y = arith.mulf %s, %g : f32
      loop.store %y, %out[0, %i, %j] : memref<1x32x2048xf32>
    }
  }
  func.return
}

// -----

// Elements that a thread alone reads, and twice, go to its registers; the loops over them are unrolled.
// CHECK-LABEL: func.func @own_row(%x: memref<64x24xf32>, %out: memref<64x24xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 64 : thread) {
// CHECK-NEXT:      %[[X_REG:.*]] = tile.stage %x[%[[I]], d0] : memref<64x24xf32> to memref<24xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 24 unroll : f32 {
// CHECK-NEXT:        %[[V:.*]] = loop.load %[[X_REG]][%[[K]]] : memref<24xf32, #tile.memory<register>>
// CHECK-NEXT:        loop.yield %[[V]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 24 unroll {
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %[[X_REG]][%[[J]]] : memref<24xf32, #tile.memory<register>>
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[V_1]], %[[SUM]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[%[[I]], %[[J]]] : memref<64x24xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @own_row(%x: memref<64x24xf32>, %out: memref<64x24xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 24 : f32 {
      %v = loop.load %x[%i, %k] : memref<64x24xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 24 {
      %v = loop.load %x[%i, %j] : memref<64x24xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%i, %j] : memref<64x24xf32>
    }
  }
  func.return
}

// -----

// The same in shared memory where the schedule says so.
// CHECK-LABEL: func.func @shared_row(%x: memref<64x24xf32>, %out: memref<64x24xf32>) attributes {deplodock.schedule = "tileify,stage-inputs{memory=shared}"} {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 64 : thread) {
// CHECK-NEXT:      %[[X_SMEM:.*]] = tile.stage %x[d0, d1] : memref<64x24xf32> to memref<64x24xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 24 : f32 {
// CHECK-NEXT:        %[[V:.*]] = loop.load %[[X_SMEM]][%[[I]], %[[K]]] : memref<64x24xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.yield %[[V]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 24 {
// CHECK-NEXT:        %[[V_1:.*]] = loop.load %[[X_SMEM]][%[[I]], %[[J]]] : memref<64x24xf32, #tile.memory<shared>>
// CHECK-NEXT:        %[[Y:.*]] = arith.mulf %[[V_1]], %[[SUM]] : f32
// CHECK-NEXT:        loop.store %[[Y]], %out[%[[I]], %[[J]]] : memref<64x24xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @shared_row(%x: memref<64x24xf32>, %out: memref<64x24xf32>) attributes {deplodock.schedule = "tileify,stage-inputs{memory=shared}"} {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 24 : f32 {
      %v = loop.load %x[%i, %k] : memref<64x24xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 24 {
      %v = loop.load %x[%i, %j] : memref<64x24xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%i, %j] : memref<64x24xf32>
    }
  }
  func.return
}

// -----

// A slab's origin is what the CTA fixes; the rest are its coordinates, from 0.
// CHECK-LABEL: func.func @window(%x: memref<100xf32>, %out: memref<96xf32>) attributes {deplodock.schedule = "stage-inputs"} {
// CHECK-NEXT:    tile.launch (%[[B:.*]] = 2 : block, %[[T:.*]] = 48 : thread) {
// CHECK-NEXT:      %[[I:.*]] = loop.index [%[[B]] * 48 + %[[T]]]
// CHECK-NEXT:      %[[X_SMEM:.*]] = tile.stage %x[%[[B]] * 48 + d0] : memref<100xf32> to memref<52xf32, #tile.memory<shared>>
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 5 : f32 {
// CHECK-NEXT:        %[[V:.*]] = loop.load %[[X_SMEM]][%[[T]] + %[[K]]] : memref<52xf32, #tile.memory<shared>>
// CHECK-NEXT:        loop.yield %[[V]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %[[SUM]], %out[%[[I]]] : memref<96xf32>
// CHECK-NEXT:    }
func.func @window(%x: memref<100xf32>, %out: memref<96xf32>) attributes {deplodock.schedule = "stage-inputs"} {
  tile.launch (%b = 2 : block, %t = 48 : thread) {
    %i = loop.index [%b * 48 + %t]
    %sum = loop.reduce {arith.addf} %k = 0 to 5 : f32 {
      %v = loop.load %x[%i + %k] : memref<100xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<96xf32>
  }
  func.return
}

// -----

// A buffer that the kernel writes is left alone.
// CHECK-LABEL: func.func @in_place
func.func @in_place(%x: memref<64xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
  loop.for %i = 0 to 64 {
    %a = loop.load %x[%i] : memref<64xf32>
    %b = loop.load %x[%i] : memref<64xf32>
    %y = arith.addf %a, %b : f32
    loop.store %y, %x[%i] : memref<64xf32>
  }
  func.return
}

// -----

// Elements that are read once stay where they are.
// CHECK-LABEL: func.func @once
func.func @once(%x: memref<64xf32>, %out: memref<64xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
  loop.for %i = 0 to 64 {
    %a = loop.load %x[%i] : memref<64xf32>
    loop.store %a, %out[%i] : memref<64xf32>
  }
  func.return
}

// -----

// memory=register takes no slab that threads share.
// CHECK-LABEL: func.func @registers_only
func.func @registers_only(%x: memref<8xf32>, %out: memref<64x8xf32>) attributes {deplodock.schedule = "tileify,stage-inputs{memory=register}"} {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 8 {
      %a = loop.load %x[%j] : memref<8xf32>
      loop.store %a, %out[%i, %j] : memref<64x8xf32>
    }
  }
  func.return
}

// -----

// Subscripts that are data have no slab.
// CHECK-LABEL: func.func @gathered
func.func @gathered(%idx: memref<64xi32>, %x: memref<64xf32>, %out: memref<64xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
  loop.for %i = 0 to 64 {
    %d = loop.load %idx[%i] : memref<64xi32>
    %at = arith.index_cast %d : i32 to index
    %a = loop.load %x[%at] : memref<64xf32>
    loop.store %a, %out[%i] : memref<64xf32>
  }
  func.return
}

// -----

// Threads that leave a loop at different times cannot fill a slab in it together.
// CHECK-LABEL: func.func @divergent
func.func @divergent(%x: memref<64x8xf32>, %out: memref<64xf32>) attributes {deplodock.schedule = "tileify,stage-inputs"} {
  loop.for %i = 0 to 64 {
    %max = loop.reduce {arith.maximumf} %j = 0 to %i + 1 : f32 {
      %sum = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
        %a = loop.load %x[%j, %k] : memref<64x8xf32>
        loop.yield %a : f32
      }
      loop.yield %sum : f32
    }
    loop.store %max, %out[%i] : memref<64xf32>
  }
  func.return
}

// -----

// What a thread reads beside the loops of a contraction it reads once: the bias stays where it is.
// CHECK-LABEL: func.func @bias
// CHECK:           loop.load %{{.*}}_smem[
// CHECK:           loop.load %bias[%{{.*}}] : memref<32xf32>
func.func @bias(%x: memref<32x64xf32>, %w: memref<64x32xf32>, %bias: memref<32xf32>, %out: memref<32x32xf32>) {
  loop.for %m = 0 to 32 {
    loop.for %n = 0 to 32 {
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %x[%m, %k] : memref<32x64xf32>
        %b = loop.load %w[%k, %n] : memref<64x32xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      %c = loop.load %bias[%n] : memref<32xf32>
      %s = arith.addf %acc, %c : f32
      loop.store %s, %out[%m, %n] : memref<32x32xf32>
    }
  }
  func.return
}
