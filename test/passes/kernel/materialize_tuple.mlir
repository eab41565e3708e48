// RUN: deplodock-opt %s -p materialize | filecheck %s
// RUN: deplodock-opt %s -p materialize --check-semantics -o /dev/null

// Each result of a reduction is folded along its own register axes, and so is each operation of the combiner: what only
// the maximum needs is computed once for a row, whatever the weighted sum varies along.
// CHECK-LABEL: kernel.func @weighted
// CHECK-DAG:     %[[M:.*]] = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-DAG:     %[[O:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK:         loop.for %{{.*}} = 0 to 100 {
// CHECK:           %[[MAX:.*]] = arith.maximumf
// CHECK:           math.exp
// CHECK-NOT:       loop.for
// CHECK:           math.exp
// CHECK-NOT:       math.exp
// CHECK:           loop.for %[[D:.*]] = 0 to 4 unroll {
// CHECK-NOT:         math.exp
// CHECK:             arith.addf
// CHECK:           loop.store %[[MAX]], %[[M]][]
// CHECK:           loop.for %[[D1:.*]] = 0 to 4 unroll {
// CHECK:             loop.store %{{.*}}, %[[O]][%[[D1]]]
func.func @weighted(%x: memref<8x100xf32>, %v: memref<100x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%t = 8 : thread, %d = 4 : register) {
    %m, %o = loop.reduce %k = 0 to 100 : f32, f32 {
      %a = loop.load %x[%t, %k] : memref<8x100xf32>
      %b = loop.load %v[%k, %d] : memref<100x4xf32>
      loop.yield %a, %b : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [-3.0e+38 : f32, 0.0 : f32] {
      %mm = arith.maximumf %m0, %m1 : f32
      %s0 = arith.subf %m0, %mm : f32
      %c0 = math.exp %s0 : f32
      %s1 = arith.subf %m1, %mm : f32
      %c1 = math.exp %s1 : f32
      %a0 = arith.mulf %o0, %c0 : f32
      %a1 = arith.mulf %o1, %c1 : f32
      %a = arith.addf %a0, %a1 : f32
      loop.yield %mm, %a : f32, f32
    }
    loop.store %o, %out[%t, %d] : memref<8x4xf32>
  }
  func.return
}

// Chunks share the accumulators of results along unlike axes: the outer loop folds nothing.
// CHECK-LABEL: kernel.func @chunked
// CHECK:         loop.for %{{.*}} = 0 to 25 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 4 {
// CHECK-COUNT-2:     arith.addf
// CHECK-NOT:         arith.addf
func.func @chunked(%x: memref<8x100x4xf32>, %out: memref<8x4xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%t = 8 : thread, %d = 4 : register) {
    %n, %s = loop.reduce {arith.addf, arith.addf} %i = 0 to 25 : f32, f32 {
      %m, %r = loop.reduce {arith.addf, arith.addf} %j = 0 to 4 : f32, f32 {
        %a = loop.load %x[%t, %i * 4 + %j, %d] : memref<8x100x4xf32>
        loop.yield %one, %a : f32, f32
      }
      loop.yield %m, %r : f32, f32
    }
    %v = arith.mulf %s, %n : f32
    loop.store %v, %out[%t, %d] : memref<8x4xf32>
  }
  func.return
}

// Beyond the condition the identity stands in for each element, so for a constant, too, along the axes of the condition.
// CHECK-LABEL: kernel.func @counted
// CHECK:         loop.for %[[K:.*]] = 0 to 34 {
// CHECK:           %[[IN:.*]] = loop.inside where (%[[K]] * 3 + %{{.*}} < 100)
// CHECK:           %[[ONE:.*]] = arith.select %[[IN]], %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:      loop.store %[[ONE]], %{{.*}}[%{{.*}}] : memref<3xf32, #tile.memory<register>>
func.func @counted(%v: memref<100x4xf32>, %count: memref<8xf32>, %out: memref<8x4xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%t = 8 : thread, %d = 4 : register, %r = 3 : register) {
    %n, %o = loop.reduce {arith.addf, arith.addf} %k = 0 to 34 : f32, f32 {
      %i = loop.index [%k * 3 + %r]
      loop.where %i < 100
      %a = loop.load %v[%i, %d] : memref<100x4xf32>
      loop.yield %one, %a : f32, f32
    }
    %all = tile.combine {arith.addf} %n over (%r) : f32
    %sum = tile.combine {arith.addf} %o over (%r) : f32
    loop.store %all, %count[%t] : memref<8xf32>
    loop.store %sum, %out[%t, %d] : memref<8x4xf32>
  }
  func.return
}
