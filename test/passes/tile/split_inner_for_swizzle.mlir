// RUN: deplodock-opt %s -p split-inner-for-swizzle --check-semantics -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %t.once -p split-inner-for-swizzle 2>/dev/null | diff - %t.once
// RUN: deplodock-opt %s -p 'split-inner-for-swizzle{span=32}' --check-semantics 2>%t.span | filecheck %s --check-prefix SPAN
// RUN: filecheck %s --input-file %t.span --check-prefix NARROW
// RUN: deplodock-opt %s -p 'split-inner-for-swizzle{span=32},split-inner-for-swizzle{span=32}' 2>/dev/null | filecheck %s --check-prefix SPAN
// RUN: not deplodock-opt %s -p 'split-inner-for-swizzle{span=48}' 2>&1 | filecheck %s --check-prefix BAD
// RUN: deplodock-opt %s -p split-inner-for-swizzle,pipeline-k-outer,materialize,place-barriers,verify-barriers 2>/dev/null | filecheck %s --check-prefix KERNEL

// SKIP-DAG: split_inner_for_swizzle skipped at @rows: %x: no conflicts: 14 wavefronts of 14 ideal
// SKIP-DAG: split_inner_for_swizzle skipped at @plain: no slab comes in boxes; run tma-copy first
// SKIP-DAG: split_inner_for_swizzle skipped at @few: %x: its boxes of 512 bytes do not end at multiples of 1024, where the next starts; widen them
// NARROW: split_inner_for_swizzle skipped at @plain: no slab comes in boxes; run tma-copy first
// BAD: the option span must be 128, 64 or 32, got 48

// Lanes read neighbouring rows: only the layout changes.
// CHECK-LABEL: func.func @columns
// CHECK:       %xs = tile.stage %x[d0, %k * 32 + d1] buffers 3 tma : memref<32x200xf32> to memref<32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK:       loop.load %xs[%t, %i] : memref<32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// SPAN-LABEL:  func.func @columns
// SPAN:        %xs = tile.stage %x[d1, %k * 32 + d0 * 8 + d2] buffers 3 tma : memref<32x200xf32> to memref<4x32x8xf32, #tile.swizzle<32>, #tile.memory<shared>>
// SPAN:        loop.load %xs[%i floordiv 8, %t, %i mod 8]
// KERNEL-LABEL: kernel.func @columns
// KERNEL:       kernel.tma_load {{.*}} box [32, 32], swizzle 128> to memref<3x32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
func.func @columns(%x: memref<32x200xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 7 : f32 {
      %xs = tile.stage %x[d0, %k * 32 + d1] buffers 3 tma : memref<32x200xf32> to memref<32x32xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %i = 0 to 32 : f32 {
        %v = loop.load %xs[%t, %i] : memref<32x32xf32, #tile.memory<shared>>
        loop.yield %v : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

// Rows of 256 bytes are split in two, each a box of its own.
// CHECK-LABEL: func.func @wide
// CHECK:       %xs = tile.stage %x[d1, %k * 64 + d0 * 32 + d2] buffers 3 tma : memref<32x200xf32> to memref<2x32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
// CHECK:       loop.load %xs[%i floordiv 32, %t, %i mod 32]
// KERNEL-LABEL: kernel.func @wide
// KERNEL:       kernel.arrive %full[%p] expect 8192
// KERNEL-NEXT:  loop.for %[[D:.*]] = 0 to 2 unroll {
// KERNEL-NEXT:    kernel.tma_load %x_map[0, %p * 64 + %[[D]] * 32] to %xs[%p, %[[D]], 0, 0] signal %full[%p]
func.func @wide(%x: memref<32x200xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %xs = tile.stage %x[d0, %k * 64 + d1] buffers 3 tma : memref<32x200xf32> to memref<32x64xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %i = 0 to 64 : f32 {
        %v = loop.load %xs[%t, %i] : memref<32x64xf32, #tile.memory<shared>>
        loop.yield %v : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @rows(%x: memref<14x32xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 1 : f32 {
      %xs = tile.stage %x[d0, d1] buffers 2 tma : memref<14x32xf32> to memref<14x32xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %i = 0 to 14 : f32 {
        %v = loop.load %xs[%i, %t] : memref<14x32xf32, #tile.memory<shared>>
        loop.yield %v : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @few(%x: memref<4x320xf32>, %out: memref<4xf32>) {
  tile.launch (%t = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 10 : f32 {
      %xs = tile.stage %x[d0, %k * 32 + d1] buffers 2 tma : memref<4x320xf32> to memref<4x32xf32, #tile.memory<shared>>
      %part = loop.reduce {arith.addf} %i = 0 to 32 : f32 {
        %v = loop.load %xs[%t, %i] : memref<4x32xf32, #tile.memory<shared>>
        loop.yield %v : f32
      }
      loop.yield %part : f32
    }
    loop.store %acc, %out[%t] : memref<4xf32>
  }
  func.return
}

func.func @plain(%x: memref<32x200xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] async : memref<32x200xf32> to memref<32x32xf32, #tile.memory<shared>>
    %v = loop.load %xs[31 - %t, 0] : memref<32x32xf32, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<32xf32>
  }
  func.return
}
