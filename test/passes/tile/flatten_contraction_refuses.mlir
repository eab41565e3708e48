// RUN: deplodock-opt %s -p 'flatten-contraction' 2>&1 | filecheck %s

// CHECK-DAG: skipped at @matrices: m, n and k are one axis each
func.func @matrices(%x: memref<4x6xf32>, %w: memref<6x5xf32>, %out: memref<4x5xf32>) {
  tile.launch (%m = 4 : thread, %n = 5 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
      %a = loop.load %x[%m, %k] : memref<4x6xf32>
      %v = loop.load %w[%k, %n] : memref<6x5xf32>
      %p = arith.mulf %a, %v : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<4x5xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @rows: no reduction of the launch is a contraction
func.func @rows(%x: memref<4x6xf32>, %out: memref<4xf32>) {
  tile.launch (%m = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
      %a = loop.load %x[%m, %k] : memref<4x6xf32>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%m] : memref<4xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @blocks: the launch has blocks, registers or slabs; flatten-contraction runs before what makes them
func.func @blocks(%x: memref<2x4x6xf32>, %w: memref<6x5xf32>, %out: memref<2x4x5xf32>) {
  tile.launch (%b = 2 : block, %m = 4 : thread, %n = 5 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
      %a = loop.load %x[%b, %m, %k] : memref<2x4x6xf32>
      %v = loop.load %w[%k, %n] : memref<6x5xf32>
      %p = arith.mulf %a, %v : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%b, %m, %n] : memref<2x4x5xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @masked: the loop over %i has a loop.where of its own
func.func @masked(%x: memref<4x3x2xf32>, %w: memref<3x2x5xf32>, %out: memref<4x5xf32>) {
  tile.launch (%m = 4 : thread, %n = 5 : thread) {
    %acc = loop.reduce {arith.addf} %i = 0 to 3 : f32 {
      loop.where %i < %m
      %0 = loop.reduce {arith.addf} %j = 0 to 2 : f32 {
        %a = loop.load %x[%m, %i, %j] : memref<4x3x2xf32>
        %v = loop.load %w[%i, %j, %n] : memref<3x2x5xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<4x5xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @chunks: k runs in chunks already; flatten-contraction runs before chunk-matmul-k
func.func @chunks(%x: memref<4x6xf32>, %w: memref<6x5xf32>, %out: memref<4x5xf32>) {
  tile.launch (%m = 4 : thread, %n = 5 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 2 : f32 {
        %k = loop.index [%ko * 2 + %ki]
        %a = loop.load %x[%m, %k] : memref<4x6xf32>
        %v = loop.load %w[%k, %n] : memref<6x5xf32>
        %p = arith.mulf %a, %v : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<4x5xf32>
  }
  func.return
}
