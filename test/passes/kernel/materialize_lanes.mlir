// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers --split-input-file --check-semantics

// A value along a lane axis is held by the carrier's threads, and each of them writes its own.
// CHECK-LABEL: kernel.func @copy
// CHECK-SAME:    threads(%thread = 32)
// CHECK:         %[[G:.*]] = loop.index [%thread floordiv 4]
// CHECK-NEXT:    %[[T:.*]] = loop.index [%thread mod 4]
// CHECK-NEXT:    %[[A:.*]] = loop.load %x[%[[G]], %[[T]]] : memref<8x4xf32>
// CHECK-NEXT:    loop.store %[[A]], %out[%[[G]], %[[T]]] : memref<8x4xf32>
func.func @copy(%x: memref<8x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %k = 4 : lane %t) {
    %a = loop.load %x[%g, %k] : memref<8x4xf32>
    loop.store %a, %out[%g, %k] : memref<8x4xf32>
  }
  func.return
}

// -----

// Folding a lane axis folds its carrier's threads; one of them writes along the carrier.
// CHECK-LABEL: kernel.func @sum
// CHECK:         kernel.shuffle_xor {{.*}}, 2 : f32
// CHECK:         kernel.shuffle_xor {{.*}}, 1 : f32
// CHECK-NOT:     shuffle_xor
// CHECK:         loop.guard where (%t < 1)
func.func @sum(%x: memref<8x4xf32>, %out: memref<8xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %k = 4 : lane %t) {
    %a = loop.load %x[%g, %k] : memref<8x4xf32>
    %s = tile.combine {arith.addf} %a over (%k) : f32
    loop.store %s, %out[%g] : memref<8xf32>
  }
  func.return
}

// -----

// A condition along a lane axis is one of the thread that holds the value there.
// CHECK-LABEL: kernel.func @some
// CHECK:         %[[IN:.*]] = loop.inside where (%t < 3)
// CHECK:         arith.select %[[IN]]
func.func @some(%x: memref<8x4xf32>, %out: memref<8xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %k = 4 : lane %t) {
    loop.where %k < 3
    %a = loop.load %x[%g, %k] : memref<8x4xf32>
    %s = tile.combine {arith.addf} %a over (%k) : f32
    loop.store %s, %out[%g] : memref<8xf32>
  }
  func.return
}

// -----

// A gather along a lane axis is made at the active points, whose conditions are along the same one.
// CHECK-LABEL: kernel.func @gather
// CHECK:         loop.load %at[%t] : memref<4xi64>
// CHECK:         kernel.move 1 %x[%{{.*}}] to {{.*}} where (%t < 3)
func.func @gather(%x: memref<4xf32>, %at: memref<4xi64>, %out: memref<3xf32>) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %t) {
    loop.where %k < 3
    %last = arith.constant 3 : i64
    %i = loop.load %at[%k] : memref<4xi64>
    %known = arith.andi %i, %last : i64
    %j = arith.index_cast %known : i64 to index
    %a = loop.load %x[%j] : memref<4xf32>
    loop.store %a, %out[%k] : memref<3xf32>
  }
  func.return
}
