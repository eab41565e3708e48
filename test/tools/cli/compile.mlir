// RUN: deplodock compile %s --ir kernel | filecheck %s --check-prefix=KERNEL
// RUN: deplodock compile %s --target sm_80 | filecheck %s --check-prefix=CUDA
// RUN: deplodock compile - --ir tile --print-op-generic < %s | filecheck %s --check-prefix=GENERIC
// RUN: deplodock compile %s --ir loop --color always | filecheck %s --check-prefix=COLOR
// RUN: deplodock compile %s --ir tile -vv | filecheck %s --check-prefix=TRACE

func.func @k_row(%x: memref<4x64xf32>, %out: memref<4xf32>) {
  loop.for %a0 = 0 to 4 {
    %sum = loop.reduce {arith.addf} %a1 = 0 to 64 : f32 {
      %in = loop.load %x[%a0, %a1] : memref<4x64xf32>
      loop.yield %in : f32
    }
    loop.store %sum, %out[%a0] : memref<4xf32>
  }
  func.return
}

// KERNEL:      builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132,
// KERNEL:      kernel.func @k_row(%x: memref<4x64xf32>, %out: memref<4xf32>) blocks(
// KERNEL:      func.func @run_k_row(%x: memref<4x64xf32>, %out: memref<4xf32>) {
// KERNEL-NEXT:   kernel.launch @k_row(%x, %out)

// CUDA:      extern "C" __global__ void __launch_bounds__({{.*}}) k_row(const float* __restrict__ x, float* __restrict__ out) {
// CUDA-NOT:  builtin.module

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   "func.func"() <{
// GENERIC:        "tile.launch"() <{

// COLOR: {{.*}}func.func{{.*}} {{.*}}@k_row{{.*}}({{.*}}%x

// TRACE:      >>> t:{{[0-9]+}}_tileify @k_row
// TRACE-NEXT: @@
// TRACE:      {{^}}-  loop.for %a0 = 0 to 4 {
// TRACE-NEXT: {{^}}+  tile.launch (%a0 = 4 : thread) {
// TRACE:      <<< t:{{[0-9]+}}_tileify
// TRACE:      --- t:{{[0-9]+}}_stage_inputs skipped at @k_row:
// TRACE:      builtin.module
