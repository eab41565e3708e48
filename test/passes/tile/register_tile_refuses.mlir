// RUN: deplodock-opt %s -p register-tile 2>&1 | filecheck %s

// The axis along which the store is contiguous is folded by a combine, which needs all its threads.
// CHECK-DAG: skipped at @rows: no thread axis walks contiguous memory in every store
func.func @rows(%x: memref<4x64xf32>, %out: memref<4x64xf32>) {
  tile.launch (%i = 4 : block, %t = 64 : thread) {
    %v = loop.load %x[%i, %t] : memref<4x64xf32>
    %sum = tile.combine {arith.addf} %v over (%t) : f32
    %y = arith.mulf %v, %sum : f32
    loop.store %y, %out[%i, %t] : memref<4x64xf32>
  }
  func.return
}

// Rows of a triangle are sums of different lengths.
// CHECK-DAG: skipped at @triangle: the bound of the loop over %k varies along %i, so outputs share no loop
func.func @triangle(%x: memref<16x16xf32>, %w: memref<16x16xf32>, %out: memref<16x16xf32>) {
  tile.launch (%i = 16 : thread, %j = 16 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to %i + 1 : f32 {
      %a = loop.load %x[%i, %k] : memref<16x16xf32>
      %b = loop.load %w[%k, %j] : memref<16x16xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%i, %j] : memref<16x16xf32>
  }
  func.return
}

// A slab in registers is what one thread keeps of its row.
// CHECK-DAG: skipped at @kept: the register slab %kept_reg is of one output along %i; run stage-inputs later
func.func @kept(%x: memref<64x2xf32>, %out: memref<64xf32>) {
  tile.launch (%i = 64 : thread) {
    %kept_reg = tile.stage %x[%i, d0] : memref<64x2xf32> to memref<2xf32, #tile.memory<register>>
    %sum = loop.reduce {arith.addf} %k = 0 to 2 : f32 {
      %v = loop.load %kept_reg[%k] : memref<2xf32, #tile.memory<register>>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
