// Roles print as branches over the threads of a CTA, with their registers, and named barriers of their threads.
// RUN: deplodock-opt %s -t cuda | filecheck %s

// CHECK:      __launch_bounds__(384, 1)
// CHECK-NEXT: const int block = blockIdx.x, thread = threadIdx.x;
// CHECK:      __syncthreads();
// CHECK-NEXT: if (thread < 128) {
// CHECK-NEXT:   // producer
// CHECK-NEXT:   const int copier = thread;
// CHECK-NEXT:   asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
// CHECK-NEXT:   if (copier < 1) {
// CHECK-NEXT:     mbarrier_arrive(&full[0]);
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK-NEXT: else {
// CHECK-NEXT:   // consumers
// CHECK-NEXT:   const int reader = thread - 128;
// CHECK-NEXT:   asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
// CHECK-NEXT:   mbarrier_wait(&full[0], 0);
// CHECK-NEXT:   asm volatile("bar.sync 2, 256;" ::: "memory");
// CHECK-NEXT:   out[reader] =
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  kernel.func @copier(%out: memref<256xf32>) blocks(%block = 1) threads(%thread = 384) {
    %full = kernel.mbarrier 1 arrivals 1
    kernel.barrier
    kernel.roles {
      kernel.role producer(%copier = 128) registers 24 {
        loop.guard where (%copier < 1) {
          kernel.arrive %full[0]
        }
      }
      kernel.role consumers(%reader = 256) registers 240 {
        kernel.wait_phase %full[0], 0
        kernel.barrier
        %one = arith.constant 1.0 : f32
        loop.store %one, %out[%reader] : memref<256xf32>
      }
    }
  }
  // Three roles, which keep the registers of the kernel.
  // CHECK:      __launch_bounds__(96)
  // CHECK:      if (thread < 32) {
  // CHECK:      else if (thread < 64) {
  // CHECK-NEXT:   // two
  // CHECK-NEXT:   const int b = thread - 32;
  // CHECK-NEXT:   asm volatile("bar.sync 2, 32;" ::: "memory");
  // CHECK-NEXT: }
  // CHECK-NEXT: else {
  kernel.func @warps() blocks(%block = 1) threads(%thread = 96) {
    kernel.roles {
      kernel.role one(%a = 32) {}
      kernel.role two(%b = 32) {
        kernel.barrier
      }
      kernel.role three(%c = 32) {}
    }
  }
}
