// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// The last chunk of k has 4 of its 32 elements, in one group of 4: the other groups are passed over.
// CHECK-LABEL: func.func @last_chunk
// CHECK-SAME:  chunk-matmul-k{bk=32 kv=4},{{.*}}permute-register-tile{m=strips n=strips lanes=nm},
func.func @last_chunk(%x: memref<16x512x100xf32>, %y: memref<16x100x512xf32>, %out: memref<16x512x512xf32>) {
  loop.for %b = 0 to 16 {
    loop.for %m = 0 to 512 {
      loop.for %n = 0 to 512 {
        %acc = loop.reduce {arith.addf} %k = 0 to 100 : f32 {
          %l = loop.load %x[%b, %m, %k] : memref<16x512x100xf32>
          %r = loop.load %y[%b, %k, %n] : memref<16x100x512xf32>
          %p = arith.mulf %l, %r : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<16x512x512xf32>
      }
    }
  }
  func.return
}

// -----

// It has 28 of them: to ask in each group whether it is one costs as much as the products of zeros.
// CHECK-LABEL: func.func @full_chunk
// CHECK-SAME:  chunk-matmul-k{bk=32},
func.func @full_chunk(%x: memref<16x512x124xf32>, %y: memref<16x124x512xf32>, %out: memref<16x512x512xf32>) {
  loop.for %b = 0 to 16 {
    loop.for %m = 0 to 512 {
      loop.for %n = 0 to 512 {
        %acc = loop.reduce {arith.addf} %k = 0 to 124 : f32 {
          %l = loop.load %x[%b, %m, %k] : memref<16x512x124xf32>
          %r = loop.load %y[%b, %k, %n] : memref<16x124x512xf32>
          %p = arith.mulf %l, %r : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<16x512x512xf32>
      }
    }
  }
  func.return
}

// -----

// The columns of scores walk k in memory: a thread stores pairs of them, 16 columns of a warp side by side.
// CHECK-LABEL: func.func @scores
// CHECK-SAME:  chunk-matmul-k{bk=32},{{.*}}register-tile{m=8 n=8},permute-register-tile{m=strips n=strips vec=2 lanes=nm},
func.func @scores(%q: memref<24x500x64xf32>, %k: memref<24x500x64xf32>, %out: memref<24x500x500xf32>) {
  loop.for %b = 0 to 24 {
    loop.for %m = 0 to 500 {
      loop.for %n = 0 to 500 {
        %acc = loop.reduce {arith.addf} %d = 0 to 64 : f32 {
          %l = loop.load %q[%b, %m, %d] : memref<24x500x64xf32>
          %r = loop.load %k[%b, %n, %d] : memref<24x500x64xf32>
          %p = arith.mulf %l, %r : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<24x500x500xf32>
      }
    }
  }
  func.return
}

// -----

// Their products with the values have columns along the right factor: copies of 16 bytes.
// CHECK-LABEL: func.func @long_k
// CHECK-SAME:  chunk-matmul-k{bk=32},{{.*}}blockify-launch{m=64 n=64
func.func @long_k(%p: memref<24x500x500xf32>, %v: memref<24x500x64xf32>, %out: memref<24x500x64xf32>) {
  loop.for %b = 0 to 24 {
    loop.for %m = 0 to 500 {
      loop.for %n = 0 to 64 {
        %acc = loop.reduce {arith.addf} %k = 0 to 500 : f32 {
          %l = loop.load %p[%b, %m, %k] : memref<24x500x500xf32>
          %r = loop.load %v[%b, %k, %n] : memref<24x500x64xf32>
          %q = arith.mulf %l, %r : f32
          loop.yield %q : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<24x500x64xf32>
      }
    }
  }
  func.return
}

// -----

// k in parts that lies along both factors is copied in shorter chunks.
// CHECK-LABEL: func.func @parts
// CHECK-SAME:  chunk-matmul-k{bk=16},split-matmul-k{s=
func.func @parts(%x: memref<333x777xf32>, %w: memref<1000x777xf32>, %out: memref<333x1000xf32>) {
  loop.for %m = 0 to 333 {
    loop.for %n = 0 to 1000 {
      %acc = loop.reduce {arith.addf} %k = 0 to 777 : f32 {
        %l = loop.load %x[%m, %k] : memref<333x777xf32>
        %r = loop.load %w[%n, %k] : memref<1000x777xf32>
        %p = arith.mulf %l, %r : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<333x1000xf32>
    }
  }
  func.return
}
