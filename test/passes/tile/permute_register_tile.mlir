// RUN: deplodock-opt %s -p 'permute-register-tile{m=strips n=strided lanes=nmn}' --split-input-file --check-semantics 2>%t.skips -o %t.once.mlir
// RUN: filecheck %s --input-file %t.once.mlir
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: not deplodock-opt %t.once.mlir -p 'permute-register-tile{m=strips}' --split-input-file 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %s -p 'permute-register-tile{m=strips n=strips vec=2}' --split-input-file 2>/dev/null | filecheck %s --check-prefix STRIPS
// RUN: not deplodock-opt %s -p 'permute-register-tile{n=strips vec=3}' --split-input-file 2>&1 | filecheck %s --check-prefix VEC
// RUN: not deplodock-opt %s -p 'permute-register-tile{lanes=mk}' --split-input-file 2>&1 | filecheck %s --check-prefix LANES
// RUN: not deplodock-opt %s -p 'permute-register-tile{n=diagonal}' --split-input-file 2>&1 | filecheck %s --check-prefix WORD

// TWICE: applies to no kernel: @matmul: the register tile along m is placed already
// VEC: applies to no kernel: @matmul: strips of 3 do not divide 4 registers
// LANES: the option lanes must be a word of the letters m and n, got mk
// WORD: diagonal

// Four of the eight rows of a thread are neighbours, and its columns are a row of threads apart: only coordinates change.
// The lowest bit of a lane is a column, then a row, then a column.
// CHECK-LABEL: func.func @matmul
// CHECK:       tile.launch (%n_l4 = 2 : thread, %n_l2 = 2 : thread, %m_t = 2 : thread, %n_l1 = 2 : thread,
// CHECK-SAME:      %m_ro = 2 : register, %m_rv = 4 : register, %n_r = 4 : register) {
// CHECK-NEXT:    %[[NT:.*]] = loop.index [%n_l4 * 4 + %n_l2 * 2 + %n_l1]
// CHECK-NEXT:    %m = loop.index [%m_ro * 8 + %m_t * 4 + %m_rv]
// CHECK-NEXT:    %n = loop.index [%n_r * 8 + %[[NT]]]
// CHECK-NEXT:    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
// CHECK-NEXT:      loop.load %x[%m, %k]

// STRIPS-LABEL: func.func @matmul
// STRIPS:       tile.launch (%m_t = 2 : thread, %n_t = 8 : thread,
// STRIPS-SAME:      %m_ro = 4 : register, %m_rv = 2 : register, %n_ro = 2 : register, %n_rv = 2 : register) {
// STRIPS-NEXT:    %m = loop.index [%m_ro * 4 + %m_t * 2 + %m_rv]
// STRIPS-NEXT:    %n = loop.index [%n_ro * 16 + %n_t * 2 + %n_rv]
func.func @matmul(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 8 : thread, %m_r = 8 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 8 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<16x32xf32>
      %b = loop.load %w[%n, %k] : memref<32x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

// -----

// The neighbours of a thread of any other kernel are placed as the columns of a contraction are.
// CHECK-LABEL: func.func @pointwise
// CHECK:         tile.launch (%m_t = 2 : thread, %m_r = 4 : register) {
// CHECK-NEXT:      %m = loop.index [%m_r * 2 + %m_t]
// SKIP: permute_register_tile skipped at @untiled: no register tile is there, or it is placed so already
func.func @untiled(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %a = loop.load %x[%m] : memref<8xf32>
    loop.store %a, %out[%m] : memref<8xf32>
  }
  func.return
}

func.func @pointwise(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%m_t = 2 : thread, %m_r = 4 : register) {
    %m = loop.index [%m_t * 4 + %m_r]
    %a = loop.load %x[%m] : memref<8xf32>
    loop.store %a, %out[%m] : memref<8xf32>
  }
  func.return
}

// SKIP: permute_register_tile skipped at @cells: the launch has no register axes; run register-tile first
func.func @cells(%x: memref<4x32xf32>, %w: memref<8x32xf32>, %out: memref<4x8xf32>) {
  tile.launch (%m = 4 : thread, %n = 8 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<4x32xf32>
      %b = loop.load %w[%n, %k] : memref<8x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<4x8xf32>
  }
  func.return
}

// A warp of 2 x 4 threads needs as many.
// SKIP: permute_register_tile skipped at @narrow: 4 lanes along n do not divide 2 threads
func.func @narrow(%x: memref<16x32xf32>, %w: memref<8x32xf32>, %out: memref<16x8xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 2 : thread, %m_r = 8 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 8 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<16x32xf32>
      %b = loop.load %w[%n, %k] : memref<8x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x8xf32>
  }
  func.return
}

// A slab that is read by thread and register apart would not follow the coordinate.
// SKIP: permute_register_tile skipped at @apart: the threads and registers along m are used apart from the coordinate they make
func.func @apart(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 8 : thread, %m_r = 8 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 8 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d0, d1] : memref<16x32xf32> to memref<16x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %xs[%m_t * 8 + %m_r, %k] : memref<16x32xf32, #tile.memory<shared>>
      %b = loop.load %w[%n, %k] : memref<32x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

func.func @taken(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 8 : thread, %m_r = 8 : register, %n_r = 4 : register) {
    %m = loop.index [%m_t * 8 + %m_r]
    %n = loop.index [%n_t * 4 + %n_r]
    %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
      %a = loop.load %x[%m, %k] : memref<16x32xf32>
      %b = loop.load %w[%n, %k] : memref<32x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}
