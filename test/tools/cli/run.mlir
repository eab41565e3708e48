// RUN: deplodock run %s --ir tile | filecheck %s --check-prefix=LOOP
// RUN: deplodock compile %s --ir kernel -o %t.kernel.mlir
// RUN: deplodock run %t.kernel.mlir | filecheck %s --check-prefix=KERNEL
// RUN: grep -v kernel.barrier %t.kernel.mlir > %t.race.mlir
// RUN: not deplodock run %t.race.mlir | filecheck %s --check-prefix=RACE

// The product of x + bias and w, of which all three are staged in shared memory.
func.func @k_relu(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>) {
  loop.for %a0 = 0 to 16 {
    loop.for %a1 = 0 to 16 {
      %acc = loop.reduce {arith.addf} %a2 = 0 to 64 : f32 {
        %in = loop.load %x[%a0, %a2] : memref<16x64xf32>
        %in_1 = loop.load %bias[%a2] : memref<64xf32>
        %sum = arith.addf %in, %in_1 : f32
        %in_2 = loop.load %w[%a2, %a1] : memref<64x16xf32>
        %product = arith.mulf %sum, %in_2 : f32
        loop.yield %product : f32
      }
      loop.store %acc, %out[%a0, %a1] : memref<16x16xf32>
    }
  }
  func.return
}

// LOOP:      tile.launch
// LOOP:      @k_relu: {{[0-9]+}} blocks of {{[0-9]+}} threads, {{[0-9]+}} bytes of shared memory, for sm_90
// LOOP-NEXT:   global memory: {{[0-9]+}} bytes read, 1024 written; barriers: {{[1-9]}}
// LOOP-NEXT: output 0: right: error {{.*}} (bar {{.*}})
// LOOP-NEXT: also right on inputs that are integers from -2 to 2, on which all is exact; from -3 to -1; {{.*}}0 and -0
// LOOP:      passed: the result agrees with the evaluator in float64, no findings

// KERNEL:      @k_relu:
// KERNEL:      passed: nothing to compare with at kernel level, no findings

// RACE:      run.mlir{{.*}}.race.mlir:{{[0-9]+}}:{{[0-9]+}}: data race: kernel @k_relu: `%{{.*}} = loop.load
// RACE:      FAILED: nothing to compare with at kernel level, {{[1-9]}} finding
