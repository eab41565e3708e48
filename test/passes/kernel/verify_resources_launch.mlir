// What materialize makes of a launch is refused at the launch.
// RUN: deplodock-opt %s -p materialize,verify-resources --split-input-file --verify-diagnostics | filecheck %s

// CHECK: verify_resources_launch.mlir:[[# @LINE + 3]]:3: error: kernel.func: @wide has 2048 threads in a CTA, sm_90 allows 1024
func.func @wide(%x: memref<2048xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 2048 : thread) {
    loop.store %one, %x[%i] : memref<2048xf32>
  }
  func.return
}

// -----

// CHECK: verify_resources_launch.mlir:[[# @LINE + 2]]:3: error: kernel.func: @large needs 262144 bytes of shared memory in a CTA, sm_90 allows 232448
func.func @large(%x: memref<65536xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0] : memref<65536xf32> to memref<65536xf32, #tile.memory<shared>>
    %a = loop.load %s[%t * 2048] : memref<65536xf32, #tile.memory<shared>>
    loop.store %a, %out[%t] : memref<32xf32>
  }
  func.return
}

// -----

// CHECK: verify_resources_launch.mlir:[[# @LINE + 3]]:3: error: kernel.func: @wide_cluster has clusters of 16 CTAs, one holds 8
func.func @wide_cluster(%out: memref<16xf32>) {
  %c = arith.constant 1.0 : f32
  tile.launch (%s = 16 : cluster) {
    loop.store %c, %out[%s] : memref<16xf32>
  }
  func.return
}
