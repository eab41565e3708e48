// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Rows that fill the SMs have few warps, whose totals each thread folds; few long rows have as many as a CTA takes.
// CHECK: func.func @many({{.*}}cooperative-reduce{threads=256 vector=4}
func.func @many(%x: memref<4096x32768xf32>, %out: memref<4096x32768xf32>) {
  loop.for %r = 0 to 4096 {
    loop.for %k = 0 to 32768 {
      %v = loop.load %x[%r, %k] : memref<4096x32768xf32>
      %s = loop.scan {arith.addf} %v along (%k) : f32
      loop.store %s, %out[%r, %k] : memref<4096x32768xf32>
    }
  }
  func.return
}

// -----

// CHECK: func.func @few({{.*}}cooperative-reduce{threads=1024 vector=4}
func.func @few(%x: memref<2x32768xf32>, %out: memref<2x32768xf32>) {
  loop.for %r = 0 to 2 {
    loop.for %k = 0 to 32768 {
      %v = loop.load %x[%r, %k] : memref<2x32768xf32>
      %s = loop.scan {arith.addf} %v along (%k) : f32
      loop.store %s, %out[%r, %k] : memref<2x32768xf32>
    }
  }
  func.return
}

// -----

// A step of a scan waits for the one before, so a thread has neighbours also where no access takes several.
// CHECK: func.func @odd({{.*}}cooperative-reduce{threads=256 vector=2}
func.func @odd(%x: memref<2000x3001xf32>, %out: memref<2000x3001xf32>) {
  loop.for %r = 0 to 2000 {
    loop.for %k = 0 to 3001 {
      %v = loop.load %x[%r, %k] : memref<2000x3001xf32>
      %s = loop.scan {arith.addf} %v along (%k) : f32
      loop.store %s, %out[%r, %k] : memref<2000x3001xf32>
    }
  }
  func.return
}
