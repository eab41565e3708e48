// RUN: deplodock-opt %s -p 'tileify,start-early' -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p 'start-early' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: deplodock-opt %t.once -p 'materialize' | filecheck %s --check-prefix KERNEL
// RUN: deplodock-opt %s -p 'tileify,start-early,materialize' -t cuda | filecheck %s --check-prefix CUDA
// RUN: sed 's/sm_90/sm_89/' %s | deplodock-opt -p 'tileify,start-early' 2>&1 | filecheck %s --check-prefix OLD

// TWICE: start_early skipped at @second: it starts early already
// OLD: start_early skipped at @second: sm_89 has no launches that begin early

// The kernel waits before it touches memory, and reads nothing as constant that a launch before may still write.
// CHECK: tile.launch (%i = 64 : thread) early {
// KERNEL: kernel.func @second(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 1) threads(%thread = 64) {
// KERNEL-NEXT: kernel.await_launches
// KERNEL: loop.load %x[
// CUDA: asm volatile("griddepcontrol.wait; griddepcontrol.launch_dependents;" ::: "memory");
// CUDA: second(const float* x, float* __restrict__ out) {
// CUDA-NEXT: const int block = blockIdx.x, thread = threadIdx.x;
// CUDA-NEXT: await_launches();
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, shared_per_block = 232448>} {
  func.func @second(%x: memref<64xf32>, %out: memref<64xf32>) {
    loop.for %i = 0 to 64 {
      %v = loop.load %x[%i] : memref<64xf32>
      loop.store %v, %out[%i] : memref<64xf32>
    }
    func.return
  }
}
