// RUN: deplodock-opt %s -p choose-schedule --split-input-file | filecheck %s

// Rows of which no access takes several neighbours: a thread has outputs that are a CTA's threads apart.
// CHECK-LABEL: func.func @odd
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=1024},register-tile{vector=4},permute-register-tile{n=strided}"}
func.func @odd(%x: memref<2048x1001xf32>, %out: memref<2048x1001xf32>) {
  loop.for %i = 0 to 2048 {
    loop.for %j = 0 to 1001 {
      %a = loop.load %x[%i, %j] : memref<2048x1001xf32>
      %b = arith.addf %a, %a : f32
      loop.store %b, %out[%i, %j] : memref<2048x1001xf32>
    }
  }
  func.return
}

// -----

// Too few outputs for that, and reads of columns, which would share fewer lines.
// CHECK-LABEL: func.func @few
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=256},stage-inputs"}
func.func @few(%x: memref<100x1001xf32>, %out: memref<100x1001xf32>) {
  loop.for %i = 0 to 100 {
    loop.for %j = 0 to 1001 {
      %a = loop.load %x[%i, %j] : memref<100x1001xf32>
      loop.store %a, %out[%i, %j] : memref<100x1001xf32>
    }
  }
  func.return
}

// CHECK-LABEL: func.func @transposed
// CHECK-SAME:  {deplodock.schedule = "tileify,blockify-launch{threads=256},stage-inputs"}
func.func @transposed(%x: memref<1001x2048xf32>, %out: memref<2048x1001xf32>) {
  loop.for %i = 0 to 2048 {
    loop.for %j = 0 to 1001 {
      %a = loop.load %x[%j, %i] : memref<1001x2048xf32>
      loop.store %a, %out[%i, %j] : memref<2048x1001xf32>
    }
  }
  func.return
}
