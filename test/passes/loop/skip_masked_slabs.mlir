// RUN: deplodock-opt %s -p 'skip-masked,tileify,chunk-matmul-k{bk=24 kv=1},blockify-launch{m=32 n=8},stage-inputs{memory=shared},double-buffer{depth=2},pipeline-k-outer' --check-semantics | filecheck %s

// Slabs of any shape may copy elements that no kernel stores any more: those of chunks of 24 that cross column 128.
// CHECK-LABEL: func.func @rows
// CHECK:         loop.where %n < %q floordiv 128 * 128 + 128
// CHECK-LABEL: func.func @sums
// CHECK:         tile.copy %p{{.*}} : memref<136x136xf32> to memref<2x{{.*}}, #tile.memory<shared>>
// CHECK:         loop.where %{{.*}} < %{{.*}} floordiv 128 * 128 + 128
func.func @main(%x: memref<136x136xf32>, %v: memref<136x8xf32>) -> memref<136x8xf32> {
  %p = memref.alloc() : memref<136x136xf32>
  func.call @rows(%x, %p) : (memref<136x136xf32>, memref<136x136xf32>) -> ()
  %out = memref.alloc() : memref<136x8xf32>
  func.call @sums(%p, %v, %out) : (memref<136x136xf32>, memref<136x8xf32>, memref<136x8xf32>) -> ()
  func.return %out : memref<136x8xf32>
}
func.func @rows(%x: memref<136x136xf32>, %p: memref<136x136xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 136 {
    loop.for %n = 0 to 136 {
      %row = arith.index_cast %q : index to i64
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %x[%q, %n] : memref<136x136xf32>
      %y = arith.select %counts, %a, %zero : f32
      loop.store %y, %p[%q, %n] : memref<136x136xf32>
    }
  }
  func.return
}
func.func @sums(%p: memref<136x136xf32>, %v: memref<136x8xf32>, %out: memref<136x8xf32>) {
  loop.for %q = 0 to 136 {
    loop.for %d = 0 to 8 {
      %sum = loop.reduce {arith.addf} %n = 0 to 136 : f32 {
        %a = loop.load %p[%q, %n] : memref<136x136xf32>
        %b = loop.load %v[%n, %d] : memref<136x8xf32>
        %product = arith.mulf %a, %b fastmath<nnan,nsz> : f32
        loop.yield %product : f32
      }
      loop.store %sum, %out[%q, %d] : memref<136x8xf32>
    }
  }
  func.return
}
