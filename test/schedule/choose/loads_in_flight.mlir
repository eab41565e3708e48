// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Long columns are shared by threads, so that the last wave of CTAs is short; each loads 64 bytes of its own at once.
// CHECK-LABEL: func.func @columns
// CHECK-SAME:  {deplodock.schedule = "tileify,cooperative-reduce{threads=4 lanes=free},blockify-launch{threads=512},chunk-reduce{size=16},stage-inputs,mark-unroll"}
func.func @columns(%x: memref<128x4096x4095xf32>, %out: memref<128x4095xf32>) {
  loop.for %i = 0 to 128 {
    loop.for %j = 0 to 4095 {
      %sum = loop.reduce {arith.addf} %k = 0 to 4096 : f32 {
        %a = loop.load %x[%i, %k, %j] : memref<128x4096x4095xf32>
        loop.yield %a : f32
      }
      loop.store %sum, %out[%i, %j] : memref<128x4095xf32>
    }
  }
  func.return
}

// -----

// Rows that share a vector too long for the L1 cache are reduced together.
// CHECK-LABEL: func.func @matvec
// CHECK-SAME:  {deplodock.schedule = "tileify,cooperative-reduce{threads=256 vector=4},blockify-launch{threads=1024},stage-inputs{memory=register},register-tile{vector=4},mark-unroll"}
func.func @matvec(%x: memref<2048x1048576xf32>, %y: memref<1048576x1xf32>, %out: memref<2048x1xf32>) {
  loop.for %i = 0 to 2048 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1048576 : f32 {
      %a = loop.load %x[%i, %k] : memref<2048x1048576xf32>
      %b = loop.load %y[%k, 0] : memref<1048576x1xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %sum, %out[%i, 0] : memref<2048x1xf32>
  }
  func.return
}

// -----

// A vector that stays in the L1 cache is read by each row.
// CHECK-LABEL: func.func @short
// CHECK-NOT:   register-tile
func.func @short(%x: memref<2048x4096xf32>, %y: memref<4096xf32>, %out: memref<2048xf32>) {
  loop.for %i = 0 to 2048 {
    %sum = loop.reduce {arith.addf} %k = 0 to 4096 : f32 {
      %a = loop.load %x[%i, %k] : memref<2048x4096xf32>
      %b = loop.load %y[%k] : memref<4096xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %sum, %out[%i] : memref<2048xf32>
  }
  func.return
}
