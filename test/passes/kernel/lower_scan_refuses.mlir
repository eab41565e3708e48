// RUN: deplodock-opt %s -p materialize --split-input-file --verify-diagnostics | filecheck %s

// CHECK: loop.scan: it cannot run along %b, a block axis, in this order of its axes
func.func @blocks(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%b = 8 : block) {
    %a = loop.load %x[%b] : memref<8xf32>
    %s = loop.scan {arith.addf} %a along (%b) : f32
    loop.store %s, %out[%b] : memref<8xf32>
  }
  func.return
}

// -----

// CHECK: loop.scan: it cannot run along %v, a register axis, in this order of its axes
func.func @between(%x: memref<4x4x4xf32>, %out: memref<4x4x4xf32>) {
  tile.launch (%t = 4 : thread, %v = 4 : register, %u = 4 : thread) {
    %a = loop.load %x[%t, %v, %u] : memref<4x4x4xf32>
    %s = loop.scan {arith.addf} %a along (%t, %v, %u) : f32
    loop.store %s, %out[%t, %v, %u] : memref<4x4x4xf32>
  }
  func.return
}

// -----

// CHECK: loop.scan: it runs along all loops from its first one on, in their order
func.func @inner_loop(%x: memref<8x4xf32>, %out: memref<8x4xf32>) {
  tile.launch (%t = 1 : thread) {
    loop.for %k = 0 to 8 {
      loop.for %j = 0 to 4 {
        %a = loop.load %x[%k, %j] : memref<8x4xf32>
        %s = loop.scan {arith.addf} %a along (%k) : f32
        loop.store %s, %out[%k, %j] : memref<8x4xf32>
      }
    }
  }
  func.return
}
