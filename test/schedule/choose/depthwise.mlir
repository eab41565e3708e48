// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Products of windows that overlap: rows of four outputs, four of them where their windows fit in registers.
// CHECK: func.func @depthwise
// CHECK-SAME: deplodock.schedule = "tileify,blockify-launch{threads=4096},register-tile{vector=4 rows=4},stage-windows"
func.func @depthwise(%x: memref<256x128x128xf32>, %w: memref<256x3x3xf32>, %out: memref<256x128x128xf32>) {
  loop.for %k = 0 to 256 {
    loop.for %y = 0 to 128 {
      loop.for %c = 0 to 128 {
        %acc = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
          %0 = loop.reduce {arith.addf} %v = 0 to 3 : f32 {
            %a = loop.load padded %x[%k, %y + %h - 1, %c + %v - 1] : memref<256x128x128xf32>
            %b = loop.load %w[%k, %h, %v] : memref<256x3x3xf32>
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }
          loop.yield %0 : f32
        }
        loop.store %acc, %out[%k, %y, %c] : memref<256x128x128xf32>
      }
    }
  }
  func.return
}

// -----

// Rows of odd length, which no access of several neighbours suits, have two outputs of eight rows.
// CHECK: func.func @odd
// CHECK-SAME: deplodock.schedule = "tileify,blockify-launch{threads=4096},register-tile{vector=2 rows=8},stage-windows"
func.func @odd(%x: memref<2304x57x57xf32>, %w: memref<2304x3x3xf32>, %out: memref<2304x57x57xf32>) {
  loop.for %k = 0 to 2304 {
    loop.for %y = 0 to 57 {
      loop.for %c = 0 to 57 {
        %acc = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
          %0 = loop.reduce {arith.addf} %v = 0 to 3 : f32 {
            %a = loop.load padded %x[%k, %y + %h - 1, %c + %v - 1] : memref<2304x57x57xf32>
            %b = loop.load %w[%k, %h, %v] : memref<2304x3x3xf32>
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }
          loop.yield %0 : f32
        }
        loop.store %acc, %out[%k, %y, %c] : memref<2304x57x57xf32>
      }
    }
  }
  func.return
}

// -----

// Windows twice as far apart: those of four rows do not fit.
// CHECK: func.func @strided
// CHECK-SAME: deplodock.schedule = "tileify,blockify-launch{threads=2048},register-tile{vector=4 rows=2},stage-windows"
func.func @strided(%x: memref<1024x129x129xf32>, %w: memref<1024x3x3xf32>, %out: memref<1024x64x64xf32>) {
  loop.for %k = 0 to 1024 {
    loop.for %y = 0 to 64 {
      loop.for %c = 0 to 64 {
        %acc = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
          %0 = loop.reduce {arith.addf} %v = 0 to 3 : f32 {
            %a = loop.load %x[%k, %y * 2 + %h, %c * 2 + %v] : memref<1024x129x129xf32>
            %b = loop.load %w[%k, %h, %v] : memref<1024x3x3xf32>
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }
          loop.yield %0 : f32
        }
        loop.store %acc, %out[%k, %y, %c] : memref<1024x64x64xf32>
      }
    }
  }
  func.return
}

// -----

// Windows that lie side by side share nothing.
// CHECK: func.func @apart
// CHECK-NOT: stage-windows
// CHECK: func.return
func.func @apart(%x: memref<1024x128x128xf32>, %w: memref<1024x2x2xf32>, %out: memref<1024x64x64xf32>) {
  loop.for %k = 0 to 1024 {
    loop.for %y = 0 to 64 {
      loop.for %c = 0 to 64 {
        %acc = loop.reduce {arith.addf} %h = 0 to 2 : f32 {
          %0 = loop.reduce {arith.addf} %v = 0 to 2 : f32 {
            %a = loop.load %x[%k, %y * 2 + %h, %c * 2 + %v] : memref<1024x128x128xf32>
            %b = loop.load %w[%k, %h, %v] : memref<1024x2x2xf32>
            %p = arith.mulf %a, %b : f32
            loop.yield %p : f32
          }
          loop.yield %0 : f32
        }
        loop.store %acc, %out[%k, %y, %c] : memref<1024x64x64xf32>
      }
    }
  }
  func.return
}

// -----

// A pool adds nothing up that it multiplies: windows.mlir.
// CHECK: func.func @pool
// CHECK-NOT: stage-windows
// CHECK: func.return
func.func @pool(%x: memref<256x130x130xf32>, %out: memref<256x128x128xf32>) {
  loop.for %k = 0 to 256 {
    loop.for %y = 0 to 128 {
      loop.for %c = 0 to 128 {
        %acc = loop.reduce {arith.maximumf} %h = 0 to 3 : f32 {
          %0 = loop.reduce {arith.maximumf} %v = 0 to 3 : f32 {
            %a = loop.load %x[%k, %y + %h, %c + %v] : memref<256x130x130xf32>
            loop.yield %a : f32
          }
          loop.yield %0 : f32
        }
        loop.store %acc, %out[%k, %y, %c] : memref<256x128x128xf32>
      }
    }
  }
  func.return
}
