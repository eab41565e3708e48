// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Windows along the contiguous dimension come from shared memory; a thread has several outputs, so that enough bytes
// are on their way.
// CHECK-LABEL: func.func @line
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=2048},stage-inputs{memory=shared},register-tile{vector=8},permute-register-tile{n=strided},async-copy,mark-unroll"}
func.func @line(%x: memref<512x4100xf32>, %out: memref<512x4097xf32>) {
  loop.for %i = 0 to 512 {
    loop.for %j = 0 to 4097 {
      %max = loop.reduce {arith.maximumf} %k = 0 to 4 : f32 {
        %a = loop.load %x[%i, %j + %k] : memref<512x4100xf32>
        loop.yield %a : f32
      }
      loop.store %max, %out[%i, %j] : memref<512x4097xf32>
    }
  }
  func.return
}

// -----

// Windows of several dimensions are read from the L1 cache, however long they are.
// CHECK-LABEL: func.func @plane
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=256},mark-unroll"}
func.func @plane(%x: memref<64x138x138xf32>, %out: memref<64x128x128xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 128 {
      loop.for %k = 0 to 128 {
        %max = loop.reduce {arith.maximumf} %v = 0 to 11 : f32 {
          %inner = loop.reduce {arith.maximumf} %w = 0 to 11 : f32 {
            %a = loop.load %x[%i, %j + %v, %k + %w] : memref<64x138x138xf32>
            loop.yield %a : f32
          }
          loop.yield %inner : f32
        }
        loop.store %max, %out[%i, %j, %k] : memref<64x128x128xf32>
      }
    }
  }
  func.return
}

// -----

// Those of neighbouring threads that lie far apart go through shared memory.
// CHECK-LABEL: func.func @apart
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=256},stage-inputs{memory=shared},async-copy,mark-unroll"}
func.func @apart(%x: memref<64x132x516xf32>, %out: memref<64x32x128xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 32 {
      loop.for %k = 0 to 128 {
        %max = loop.reduce {arith.maximumf} %v = 0 to 5 : f32 {
          %inner = loop.reduce {arith.maximumf} %w = 0 to 5 : f32 {
            %a = loop.load %x[%i, %j * 4 + %v, %k * 4 + %w] : memref<64x132x516xf32>
            loop.yield %a : f32
          }
          loop.yield %inner : f32
        }
        loop.store %max, %out[%i, %j, %k] : memref<64x32x128xf32>
      }
    }
  }
  func.return
}

// -----

// Windows that are read twice come from shared memory, too: a thread has several of them.
// CHECK-LABEL: func.func @twice
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=2048},stage-inputs{memory=shared},register-tile{vector=8},
func.func @twice(%x: memref<1024x8192xf32>, %out: memref<1024x512xf32>) {
  %n = arith.constant 0.0625 : f32
  loop.for %i = 0 to 1024 {
    loop.for %j = 0 to 512 {
      %sum = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %x[%i, %j * 16 + %k] : memref<1024x8192xf32>
        loop.yield %a : f32
      }
      %mean = arith.mulf %sum, %n : f32
      %squares = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
        %b = loop.load %x[%i, %j * 16 + %l] : memref<1024x8192xf32>
        %c = arith.subf %b, %mean : f32
        %d = arith.mulf %c, %c : f32
        loop.yield %d : f32
      }
      loop.store %squares, %out[%i, %j] : memref<1024x512xf32>
    }
  }
  func.return
}
