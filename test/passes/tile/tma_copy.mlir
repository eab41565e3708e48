// RUN: deplodock-opt %s -p tma-copy --check-semantics -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %t.once -p tma-copy 2>/dev/null | diff - %t.once
// RUN: not deplodock-opt %t.once -p 'tma-copy{bytes=16}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'tma-copy{bytes=20}' 2>&1 | filecheck %s --check-prefix BAD
// RUN: not deplodock-opt %s -p 'tma-copy{bytes=64}' 2>&1 | filecheck %s --check-prefix NARROW
// RUN: deplodock-opt %s -p tma-copy,async-copy,pipeline-k-outer,verify-rings,materialize,place-barriers,verify-barriers 2>/dev/null | filecheck %s --check-prefix KERNEL

// SKIP-DAG: tma_copy skipped at @single: %x: its slab has one buffer; run double-buffer first
// SKIP-DAG: tma_copy skipped at @pitch: %x: the rows of a buffer with a tensor map are multiples of 16 bytes, got 50 f32; copy without it
// SKIP-DAG: tma_copy skipped at @short: %x: its boxes of 96 bytes do not end at multiples of 128, where the next starts; widen them
// SKIP-DAG: tma_copy skipped at @diagonal: %x: a coordinate of its slab does not walk one subscript alone
// SKIP-DAG: tma_copy skipped at @strided: %x: its slab takes no neighbours
// SKIP-DAG: tma_copy skipped at @padded: %x: its rows are padded, and those of a box lie side by side
// SKIP-DAG: tma_copy skipped at @registers: no slab is staged in shared memory; run stage-inputs first
// TWICE: @matmul: %w: its slab is transposed, and a box keeps the order of dimensions
// BAD: the option bytes must be a positive multiple of 16, got 20
// NARROW: @matmul: %x: the rows of its boxes have 32 bytes, less than 64; %w: its slab is transposed, and a box keeps the order of dimensions

// One operand comes in boxes, the other is transposed on the way and stays for async-copy.
// CHECK-LABEL: func.func @matmul
// CHECK:       tile.stage %x[d0, %ko * 8 + d1] buffers 3 tma : memref<20x52xf32> to memref<16x8xf32, #tile.memory<shared>>
// CHECK-NEXT:  tile.stage %w[d1, %ko * 8 + d0] buffers 3 : memref<24x52xf32> to memref<8x24xf32, #tile.memory<shared>>
// All threads copy %w and one the box of %x, so that a phase has 24 * 16 + 1 arrivals.
// KERNEL-LABEL: kernel.func @matmul
// KERNEL:      %full = kernel.mbarrier 3 arrivals 385
// KERNEL-NEXT: kernel.fence_proxy_async
// KERNEL:      loop.guard where (%thread < 1) {
// KERNEL-NEXT:   kernel.arrive %full[%p] expect 512
// KERNEL-NEXT:   kernel.tma_load %x_map[0, %p * 8] to %{{.*}}[%p, 0, 0] signal %full[%p] : !kernel.tensor_map<memref<20x52xf32>, box [16, 8]> to memref<3x16x8xf32, #tile.memory<shared>>
// KERNEL:      kernel.arrive_copies %full[%p]
func.func @matmul(%x: memref<20x52xf32>, %w: memref<24x52xf32>, %out: memref<16x24xf32>) {
  tile.launch (%m = 16 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %xs = tile.stage %x[d0, %ko * 8 + d1] buffers 3 : memref<20x52xf32> to memref<16x8xf32, #tile.memory<shared>>
      %ws = tile.stage %w[d1, %ko * 8 + d0] buffers 3 : memref<24x52xf32> to memref<8x24xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %ki = 0 to 8 : f32 {
        %a = loop.load %xs[%m, %ki] : memref<16x8xf32, #tile.memory<shared>>
        %b = loop.load %ws[%ki, %n] : memref<8x24xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x24xf32>
  }
  func.return
}

func.func @single(%x: memref<64xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %xs = tile.stage %x[d0] : memref<64xf32> to memref<32xf32, #tile.memory<shared>>
    %v = loop.load %xs[31 - %t] : memref<32xf32, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @pitch(%x: memref<32x50xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 7 : f32 {
      %xs = tile.stage %x[d0, %k * 8 + d1] buffers 3 : memref<32x50xf32> to memref<32x8xf32, #tile.memory<shared>>
      %v = loop.load %xs[31 - %t, 0] : memref<32x8xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @diagonal(%x: memref<64x64xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %xs = tile.stage %x[d0, %k * 8 + d0 + d1] buffers 2 : memref<64x64xf32> to memref<32x8xf32, #tile.memory<shared>>
      %v = loop.load %xs[31 - %t, 0] : memref<32x8xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @strided(%x: memref<64x64xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %xs = tile.stage %x[d0, %k * 8 + d1 * 2] buffers 2 : memref<64x64xf32> to memref<32x4xf32, #tile.memory<shared>>
      %v = loop.load %xs[31 - %t, 0] : memref<32x4xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @padded(%x: memref<64x64xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %xs = tile.stage %x[d0, %k * 8 + d1] buffers 2 : memref<64x64xf32> to memref<32x8xf32, strided<[12, 1]>, #tile.memory<shared>>
      %v = loop.load %xs[31 - %t, 0] : memref<32x8xf32, strided<[12, 1]>, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @short(%x: memref<8x96xf32>, %out: memref<24xf32>) {
  tile.launch (%t = 24 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %xs = tile.stage %x[%k, d0] buffers 2 : memref<8x96xf32> to memref<24xf32, #tile.memory<shared>>
      %v = loop.load %xs[23 - %t] : memref<24xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<24xf32>
  }
  func.return
}

func.func @registers(%x: memref<64xf32>, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %xs = tile.stage %x[%t] : memref<64xf32> to memref<f32, #tile.memory<register>>
    %v = loop.load %xs[] : memref<f32, #tile.memory<register>>
    loop.store %v, %out[%t] : memref<64xf32>
  }
  func.return
}
