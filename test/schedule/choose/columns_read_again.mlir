// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Columns that are read again get as many threads as hold them in registers.
// CHECK-LABEL: func.func @held
// CHECK-SAME:  {deplodock.schedule = "tileify,cooperative-reduce{threads=16 lanes=free vector=4},blockify-launch{threads=512},stage-inputs,mark-unroll"}
func.func @held(%x: memref<64x500x300xf32>, %out: memref<64x500x300xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 300 {
      %max = loop.reduce {arith.maximumf} %k = 0 to 500 : f32 {
        %a = loop.load %x[%i, %k, %j] : memref<64x500x300xf32>
        loop.yield %a : f32
      }
      loop.for %l = 0 to 500 {
        %b = loop.load %x[%i, %l, %j] : memref<64x500x300xf32>
        %c = arith.subf %b, %max : f32
        loop.store %c, %out[%i, %l, %j] : memref<64x500x300xf32>
      }
    }
  }
  func.return
}

// -----

// Columns that are too long for that are read in chunks, by as many threads as fill the SMs.
// CHECK-LABEL: func.func @long
// CHECK-SAME:  {deplodock.schedule = "tileify,cooperative-reduce{threads=16 lanes=free},blockify-launch{threads=512},chunk-reduce{size=8},stage-inputs,mark-unroll"}
func.func @long(%x: memref<64x3000x300xf32>, %out: memref<64x3000x300xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 300 {
      %max = loop.reduce {arith.maximumf} %k = 0 to 3000 : f32 {
        %a = loop.load %x[%i, %k, %j] : memref<64x3000x300xf32>
        loop.yield %a : f32
      }
      loop.for %l = 0 to 3000 {
        %b = loop.load %x[%i, %l, %j] : memref<64x3000x300xf32>
        %c = arith.subf %b, %max : f32
        loop.store %c, %out[%i, %l, %j] : memref<64x3000x300xf32>
      }
    }
  }
  func.return
}

// -----

// A thread that holds a short column has no neighbours of it that would not fit beside it.
// CHECK-LABEL: func.func @short
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @short(%x: memref<32x19x65536xf32>, %out: memref<32x19x65536xf32>) {
  loop.for %i = 0 to 32 {
    loop.for %j = 0 to 65536 {
      %max = loop.reduce {arith.maximumf} %k = 0 to 19 : f32 {
        %a = loop.load %x[%i, %k, %j] : memref<32x19x65536xf32>
        loop.yield %a : f32
      }
      loop.for %l = 0 to 19 {
        %b = loop.load %x[%i, %l, %j] : memref<32x19x65536xf32>
        %c = arith.subf %b, %max : f32
        loop.store %c, %out[%i, %l, %j] : memref<32x19x65536xf32>
      }
    }
  }
  func.return
}
