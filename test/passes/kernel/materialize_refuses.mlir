// RUN: deplodock-opt %s -p materialize --split-input-file --verify-diagnostics | filecheck %s

// CHECK: tile.launch: %s is defined outside the launch and is not a constant or buffer
func.func @outside(%x: memref<64xf32>, %s: f32, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %v = loop.load %x[%t] : memref<64xf32>
    %w = arith.addf %v, %s : f32
    loop.store %w, %out[%t] : memref<64xf32>
  }
  func.return
}

// -----

// CHECK: tile.stage: %x cannot be copied in boxes: the rows of a box are multiples of 16 bytes, got 3 f32; widen them
func.func @no_boxes(%x: memref<64x3xf32>, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %sum = loop.reduce {arith.addf} %k = 0 to 1 : f32 {
      %s = tile.stage %x[d0, d1] tma : memref<64x3xf32> to memref<64x3xf32, #tile.memory<shared>>
      %v = loop.load %s[%t, 0] : memref<64x3xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%t] : memref<64xf32>
  }
  func.return
}

// -----

// CHECK: tile.stage: %x cannot be copied asynchronously: a thread copies 2 bytes at once, and an asynchronous copy moves 4, 8 or 16
func.func @small(%x: memref<65xf16>, %out: memref<64xf16>) {
  tile.launch (%t = 64 : thread) {
    %s = tile.stage %x[d0 + 1] async : memref<65xf16> to memref<64xf16, #tile.memory<shared>>
    %v = loop.load %s[%t] : memref<64xf16, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<64xf16>
  }
  func.return
}

// -----

// CHECK: tile.copy: tma copies arrive at phases; the ring must be an mbarrier ring
func.func @phases(%x: memref<320xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x32xf32, #tile.memory<shared>>
    loop.for %p = 0 to 1 unroll {
      tile.copy %x[%p * 32 + d0] to %xs at %ring[%p] tma : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
    }
    %acc = loop.reduce {arith.addf} %i = 0 to 10 : f32 {
      tile.wait %ring[%i]
      %v = loop.load %xs[%i mod 3, 31 - %t] : memref<3x32xf32, #tile.memory<shared>>
      tile.release %ring[%i]
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}
