// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Threads of a warp share several short rows where these are many, and keep what they compute of an element.
// CHECK: func.func @many({{.*}}cooperative-reduce{threads=8 vector=2 keep=axes}
func.func @many(%x: memref<70000x50xf32>, %out: memref<70000x50xf32>) {
  loop.for %r = 0 to 70000 {
    %max = loop.reduce {arith.maximumf} %k = 0 to 50 : f32 {
      %a = loop.load %x[%r, %k] : memref<70000x50xf32>
      loop.yield %a : f32
    }
    loop.for %l = 0 to 50 {
      %b = loop.load %x[%r, %l] : memref<70000x50xf32>
      %c = arith.subf %b, %max : f32
      loop.store %c, %out[%r, %l] : memref<70000x50xf32>
    }
  }
  func.return
}

// -----

// Few rows have a warp each.
// CHECK: func.func @few({{.*}}cooperative-reduce{threads=32 vector=2}
func.func @few(%x: memref<7000x50xf32>, %out: memref<7000xf32>) {
  loop.for %r = 0 to 7000 {
    %max = loop.reduce {arith.maximumf} %k = 0 to 50 : f32 {
      %a = loop.load %x[%r, %k] : memref<7000x50xf32>
      loop.yield %a : f32
    }
    loop.store %max, %out[%r] : memref<7000xf32>
  }
  func.return
}
