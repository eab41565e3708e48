// RUN: deplodock-opt %s -p 'double-buffer{depth=3}' --check-semantics -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: not deplodock-opt %t.once -p 'double-buffer{depth=3}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'double-buffer{depth=0}' 2>&1 | filecheck %s --check-prefix ZERO

// SKIP: double_buffer skipped at @crowded: 3 buffers take 4224 bytes of shared memory, one of each 1408; a CTA has 3072 where 57 share an SM
// SKIP: double_buffer skipped at @single: the reductions that fill slabs have a single step
// SKIP: double_buffer skipped at @plain: no reduction fills a shared slab in each step; run stage-inputs first
// TWICE: double-buffer{depth=3} applies to no kernel: @matmul: the slabs have several buffers already
// ZERO: the option depth must be a positive integer, got 0

// Every slab that the loop fills gets the depth; other slabs stay.
// CHECK-LABEL: func.func @matmul
// CHECK:       tile.stage %x[d0, %k0 + d1] buffers 3 : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
// CHECK-NEXT:  tile.stage %w[%ko * 8 + d0, d1] buffers 3 : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
func.func @matmul(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x24xf32>
  }
  func.return
}

// A depth is at most the number of steps.
// CHECK-LABEL: func.func @short
// CHECK:       tile.stage %x[d0, %k0 + d1] buffers 2 : memref
// CHECK-NEXT:  tile.stage %w[%ko * 8 + d0, d1] buffers 2 : memref
func.func @short(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x24xf32>
  }
  func.return
}

// All buffers of all CTAs of an SM must fit in its shared memory.
// CHECK-LABEL: func.func @crowded
// CHECK:       tile.stage %x[d0, %k0 + d1] : memref
func.func @crowded(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) occupancy 57 {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x24xf32>
  }
  func.return
}

func.func @single(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 1 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[%ko * 8 + d0, d1] : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<20x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<20x24xf32>
  }
  func.return
}

func.func @plain(%x: memref<64xf32>, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %v = loop.load %x[%t] : memref<64xf32>
    loop.store %v, %out[%t] : memref<64xf32>
  }
  func.return
}
