// RUN: not deplodock-opt %s -p expand-launch --check-semantics 2>&1 | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers --check-semantics

// The evaluator runs no operations of kernels, so the passes from launch to kernel are compared as one.
// CHECK: expand-launch: @k: after the pass: {{.*}}kernel.shuffle_xor{{.*}}: it cannot be evaluated here
func.func @k(%x: memref<4x32xf32>, %out: memref<4xf32>) {
  tile.launch (%row = 4 : block, %t = 32 : thread) {
    %a = loop.load %x[%row, %t] : memref<4x32xf32>
    %sum = tile.combine {arith.addf} %a over (%t) : f32
    loop.store %sum, %out[%row] : memref<4xf32>
  }
  func.return
}
