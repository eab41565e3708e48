// RUN: deplodock-opt %s -p 'async-copy{bytes=4}' -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'async-copy{bytes=4}' --check-semantics
// RUN: not deplodock-opt %t.once -p 'async-copy{bytes=4}' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not deplodock-opt %s -p 'async-copy{bytes=5}' 2>&1 | filecheck %s --check-prefix BAD
// RUN: deplodock-opt %s -p 'async-copy{bytes=16}' 2>/dev/null | filecheck %s --check-prefix WIDE

// SKIP: async_copy skipped at @turned: %x: a thread copies 2 bytes at once; an asynchronous copy moves 4, 8 or 16
// SKIP: async_copy skipped at @odd: %x: a thread copies 1 bytes at once; an asynchronous copy moves 4, 8 or 16
// SKIP: async_copy skipped at @registers: no slab is staged in shared memory; run stage-inputs first
// TWICE: async-copy{bytes=4} applies to no kernel: @matmul: the slabs are copied asynchronously already
// BAD: the option bytes must be 4, 8 or 16, got 5

// CHECK-LABEL: func.func @matmul
// CHECK:       tile.stage %x[d0, %k0 + d1] buffers 3 async : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
// CHECK-NEXT:  tile.stage %w[%ko * 8 + d0, d1] async : memref<50x24xf32> to memref<8x24xf32, #tile.memory<shared>>
// Rows of 50 elements start at multiples of 8 bytes only.
// WIDE-LABEL:  func.func @matmul
// WIDE:        tile.stage %x[d0, %k0 + d1] buffers 3 : memref
// WIDE-NEXT:   tile.stage %w[%ko * 8 + d0, d1] async : memref
func.func @matmul(%x: memref<20x50xf32>, %w: memref<50x24xf32>, %out: memref<20x24xf32>) {
  tile.launch (%m = 20 : thread, %n = 24 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 7 : f32 {
      %k0 = loop.index [%ko * 8]
      %xs = tile.stage %x[d0, %k0 + d1] buffers 3 : memref<20x50xf32> to memref<20x8xf32, #tile.memory<shared>>
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

// Narrow elements, several at once.
// CHECK-LABEL: func.func @halves
// CHECK:       tile.stage %x[d0, %k + d1] async : memref<16x64xbf16>
// WIDE-LABEL:  func.func @halves
// WIDE:        tile.stage %x[d0, %k + d1] async : memref<16x64xbf16>
func.func @halves(%x: memref<16x64xbf16>, %out: memref<16x64xbf16>) {
  tile.launch (%b = 8 : block, %m = 16 : thread, %t = 8 : thread) {
    %k = loop.index [%b * 8]
    %xs = tile.stage %x[d0, %k + d1] : memref<16x64xbf16> to memref<16x8xbf16, #tile.memory<shared>>
    %v = loop.load %xs[%m, 7 - %t] : memref<16x8xbf16, #tile.memory<shared>>
    loop.store %v, %out[%m, %b * 8 + %t] : memref<16x64xbf16>
  }
  func.return
}

func.func @turned(%x: memref<16x64xf16>, %out: memref<16x64xf16>) {
  tile.launch (%b = 8 : block, %m = 16 : thread, %t = 8 : thread) {
    %xs = tile.stage %x[d1, %b * 8 + d0] : memref<16x64xf16> to memref<8x16xf16, #tile.memory<shared>>
    %v = loop.load %xs[7 - %t, %m] : memref<8x16xf16, #tile.memory<shared>>
    loop.store %v, %out[%m, %b * 8 + %t] : memref<16x64xf16>
  }
  func.return
}

func.func @odd(%x: memref<65xi1>, %out: memref<65xi1>) {
  tile.launch (%t = 65 : thread) {
    %xs = tile.stage %x[d0] : memref<65xi1> to memref<65xi1, #tile.memory<shared>>
    %v = loop.load %xs[64 - %t] : memref<65xi1, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<65xi1>
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
