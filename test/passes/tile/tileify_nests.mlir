// RUN: deplodock-opt %s -p tileify --split-input-file 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP

// Nests side by side become a launch each, with the reads and scalars that both use.
// CHECK-LABEL: func.func @k_cat
// CHECK:         tile.launch (%{{.*}} = 3 : thread) {
// CHECK:           loop.load %s[]
// CHECK:           loop.store
// CHECK:         }
// CHECK-NEXT:    tile.launch (%{{.*}} = 5 : thread) {
// CHECK:           loop.load %s[]
// CHECK:           loop.store
func.func @k_cat(%x: memref<3xf32>, %y: memref<5xf32>, %s: memref<f32>, %out: memref<8xf32>) {
  %f = loop.load %s[] : memref<f32>
  loop.for %i = 0 to 3 {
    %a = loop.load %x[%i] : memref<3xf32>
    %m = arith.mulf %a, %f : f32
    loop.store %m, %out[%i] : memref<8xf32>
  }
  loop.for %j = 0 to 5 {
    %b = loop.load %y[%j] : memref<5xf32>
    %n = arith.mulf %b, %f : f32
    loop.store %n, %out[%j + 3] : memref<8xf32>
  }
  func.return
}

// -----

// Not where they share a reduction.
// CHECK-LABEL: func.func @k_shared
// CHECK:         tile.launch () {
// CHECK-NOT:     tile.launch
func.func @k_shared(%x: memref<3xf32>, %o0: memref<3xf32>, %o1: memref<5xf32>) {
  %t = loop.reduce {arith.addf} %k = 0 to 3 : f32 {
    %v = loop.load %x[%k] : memref<3xf32>
    loop.yield %v : f32
  }
  loop.for %i = 0 to 3 {
    loop.store %t, %o0[%i] : memref<3xf32>
  }
  loop.for %j = 0 to 5 {
    loop.store %t, %o1[%j] : memref<5xf32>
  }
  func.return
}

// -----

// Nor where the launches would change the order of accesses to a buffer: %s is read before %x is written.
// CHECK-LABEL: func.func @k_order
// CHECK-NOT:     tile.launch
// SKIP:        tileify skipped at @k_order: %x is read and written in another order than the nests are launched in
func.func @k_order(%x: memref<3xf32>, %y: memref<3xf32>, %out: memref<5xf32>) {
  %s = loop.load %x[0] : memref<3xf32>
  loop.for %i = 0 to 3 {
    %v = loop.load %y[%i] : memref<3xf32>
    loop.store %v, %x[%i] : memref<3xf32>
  }
  loop.for %j = 0 to 5 {
    loop.store %s, %out[%j] : memref<5xf32>
  }
  func.return
}

// -----

// What needs no loop is one launch, however many single numbers it stores.
// CHECK-LABEL: func.func @counters
// CHECK:         tile.launch () {
// CHECK:           loop.store %{{.*}}, %x[] : memref<i64>
// CHECK:           loop.store %{{.*}}, %y[] : memref<i64>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return
func.func @counters(%a: memref<i64>, %b: memref<i64>, %x: memref<i64>, %y: memref<i64>) {
  %one = arith.constant 1 : i64
  %in = loop.load %a[] : memref<i64>
  %n = arith.addi %in, %one : i64
  loop.store %n, %x[] : memref<i64>
  %in_1 = loop.load %b[] : memref<i64>
  %m = arith.addi %in_1, %one : i64
  loop.store %m, %y[] : memref<i64>
  func.return
}
