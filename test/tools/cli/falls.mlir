// RUN: env -u DEPLODOCK_DEBUG deplodock run %s --ir tile 2>&1 | filecheck %s --check-prefix=FALL
// RUN: env -u DEPLODOCK_DEBUG deplodock compile %s --ir kernel 2>&1 | filecheck %s --check-prefix=COMPILE
// RUN: not deplodock run %s 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not env -u DEPLODOCK_DEBUG deplodock run %s --schedule 'tileify,blockify-launch{threads=256}' 2>&1 | filecheck %s --check-prefix=ERROR

// On a card of few threads a kernel takes a simpler schedule, which is said; one that the user gives is not replaced.
// FALL:      deplodock: the kernel @k_z ({{.*}}falls.mlir:24) takes the simpler schedule tileify,
// FALL-SAME: @k_z has 256 threads in a CTA, sm_80 allows 64; give a CTA fewer
// FALL:      deplodock.schedule = "tileify,
// FALL-NEXT: %{{.*}} = arith.constant
// FALL-NEXT: tile.launch (
// FALL:      @k_z: 16 blocks of 64 threads
// FALL:      passed: the result agrees with the evaluator in float64, no findings

// COMPILE:      deplodock: the kernel @k_z ({{.*}}falls.mlir:24) takes the simpler schedule tileify,
// COMPILE-NEXT: deplodock.falls = [{kind = "simpler_schedule", kernel = "k_z", reason = "{{.*}}a CTA fewer", schedule = "{{.*}}"

// ERROR: falls.mlir:24:{{[0-9]+}}: error: kernel.func: @k_z has 256 threads in a CTA, sm_80 allows 64; give a CTA fewer
builtin.module attributes {kernel.target = #kernel.target<sm_80,
    sms = 108, threads_per_block = 64, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255,
    registers_per_sm = 65536, shared_per_block = 166912, shared_per_sm = 167936, l2_bytes = 41943040, dram_gbps = 1555,
    fp32_lanes = 64, fp32_gflops = 19491, launch_ns = 1250>} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %z = torch.aten.relu %x : tensor<64x64xf32> -> tensor<64x64xf32>
    func.return %z : tensor<64x64xf32>
  }
}
