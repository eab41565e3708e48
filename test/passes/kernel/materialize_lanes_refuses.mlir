// What the threads of a carrier cannot run is refused where it stands.
// RUN: deplodock-opt %s -p materialize --split-input-file --verify-diagnostics | filecheck %s

// CHECK: materialize_lanes_refuses.mlir:[[# @LINE + 5]]:{{.*}}: arith.addf: its values vary along %t and %k, which share their threads
func.func @f(%x: memref<4xf32>, %out: memref<4x4xf32>) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %t) {
    %a = loop.load %x[%t] : memref<4xf32>
    %b = loop.load %x[%k] : memref<4xf32>
    %c = arith.addf %a, %b : f32
    loop.store %c, %out[%t, %k] : memref<4x4xf32>
  }
  func.return
}

// -----

// CHECK: materialize_lanes_refuses.mlir:[[# @LINE + 4]]:{{.*}}: tile.combine: its values vary along %k and %j, which share their threads
func.func @f(%x: memref<4xf32>, %out: memref<4xf32>) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %t, %j = 4 : lane %t) {
    %a = loop.load %x[%k] : memref<4xf32>
    %b = tile.combine {arith.addf} %a over (%j) : f32
    loop.store %b, %out[%k] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK: materialize_lanes_refuses.mlir:[[# @LINE + 6]]:{{.*}}: loop.load: its subscripts are of unknown range, and it varies along %k, while a condition on its points varies along %t, which shares the threads
func.func @f(%x: memref<4xf32>, %at: memref<4xi64>, %out: memref<4xf32>) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %t) {
    loop.where %t < 3
    %i = loop.load %at[%k] : memref<4xi64>
    %j = arith.index_cast %i : i64 to index
    %a = loop.load %x[%j] : memref<4xf32>
    loop.store %a, %out[%k] : memref<4xf32>
  }
  func.return
}

// -----

// CHECK: materialize_lanes_refuses.mlir:[[# @LINE + 3]]:{{.*}}: tile.stage: the origin of the slab %s varies along %k, but all of the CTA shares it
func.func @f(%x: memref<8xf32>, %out: memref<4xf32>) {
  tile.launch (%t = 4 : thread, %k = 4 : lane %t) {
    %s = tile.stage %x[%k + d0] : memref<8xf32> to memref<2xf32, #tile.memory<shared>>
    %a = loop.load %s[1] : memref<2xf32, #tile.memory<shared>>
    loop.store %a, %out[%k] : memref<4xf32>
  }
  func.return
}
