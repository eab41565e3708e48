// RUN: deplodock-opt %s -p 'stage-windows' --split-input-file --check-semantics 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix SKIP
// RUN: deplodock-opt %s -p 'stage-windows,materialize' --split-input-file 2>/dev/null | filecheck %s --check-prefix KERNEL

// The windows of the outputs of a thread lie in its registers, with zeros beyond the input. Rows are read in whole
// accesses of two, though windows start one element before those.
// CHECK-LABEL: func.func @image
// CHECK:         %x_reg = tile.stage %x[%y_t * 2 + d0 - 1, %c_t * 2 + d1 - 2] : memref<5x6xf32> to memref<4x6xf32, #tile.memory<register>>
// CHECK-NEXT:    %acc = loop.reduce {arith.addf} %h = 0 to 3 unroll : f32 {
// CHECK-NEXT:      %0 = loop.reduce {arith.addf} %w = 0 to 3 unroll : f32 {
// CHECK-NEXT:        %v = loop.load %x_reg[%y_r + %h, %c_r + %w + 1]
// KERNEL-LABEL: kernel.func @image
// KERNEL:         kernel.move 2 %x[
func.func @image(%x: memref<5x6xf32>, %out: memref<5x6xf32>) {
  tile.launch (%y_t = 3 : thread, %c_t = 3 : thread, %y_r = 2 : register, %c_r = 2 : register) {
    %y = loop.index [%y_t * 2 + %y_r]
    loop.where %y < 5
    %c = loop.index [%c_t * 2 + %c_r]
    %acc = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
      %0 = loop.reduce {arith.addf} %w = 0 to 3 : f32 {
        %v = loop.load padded %x[%y + %h - 1, %c + %w - 1] : memref<5x6xf32>
        loop.yield %v : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%y, %c] : memref<5x6xf32>
  }
  func.return
}

// -----

// A window of 1 x 40 has too many elements: none of it is staged. One row of 4 x 20 has not.
// SKIP: stage_windows skipped at @long: %x: its slab of 84 elements exceeds 64 registers
func.func @long(%x: memref<84xf32>, %out: memref<4xf32>) {
  tile.launch (%c = 4 : register) {
    %acc = loop.reduce {arith.addf} %w = 0 to 81 : f32 {
      %v = loop.load %x[%c + %w] : memref<84xf32>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%c] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @rows
// CHECK:         loop.reduce {arith.addf} %h = 0 to 4 : f32 {
// CHECK-NEXT:      %x_reg = tile.stage %x[%h, d0] : memref<4x23xf32> to memref<23xf32, #tile.memory<register>>
// CHECK-NEXT:      loop.reduce {arith.addf} %w = 0 to 20 unroll : f32 {
func.func @rows(%x: memref<4x23xf32>, %out: memref<4xf32>) {
  tile.launch (%c = 4 : register) {
    %acc = loop.reduce {arith.addf} %h = 0 to 4 : f32 {
      %0 = loop.reduce {arith.addf} %w = 0 to 20 : f32 {
        %v = loop.load %x[%h, %c + %w] : memref<4x23xf32>
        loop.yield %v : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%c] : memref<4xf32>
  }
  func.return
}

// -----

// SKIP: stage_windows skipped at @apart: %x: a thread reads each element once
func.func @apart(%x: memref<12xf32>, %out: memref<4xf32>) {
  tile.launch (%c = 4 : register) {
    %acc = loop.reduce {arith.addf} %w = 0 to 3 : f32 {
      %v = loop.load %x[%c * 3 + %w] : memref<12xf32>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%c] : memref<4xf32>
  }
  func.return
}
