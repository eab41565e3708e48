// RUN: deplodock-opt %s -t cuda | filecheck %s

// A ticket is taken by one thread and known to all; memory that is written and read has no restrict.
// CHECK:       int take_ticket(int* counter, unsigned ctas) {
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    atomicInc(reinterpret_cast<unsigned*>(counter), ctas - 1) == ctas - 1;
// CHECK-NEXT:    return __syncthreads_or(is_last) != 0;
// CHECK:       last_of_four(float* part, int* turns) {
// CHECK:         __threadfence();
// CHECK-NEXT:    const int last = take_ticket(&turns[block / 4], 4);
// CHECK-NEXT:    if (0 < last) {
// CHECK-NEXT:      __threadfence();
kernel.func @last_of_four(%part: memref<32x64xf32>, %turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 64) {
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %part[%block, %thread] : memref<32x64xf32>
  kernel.fence
  %last = kernel.ticket %turns[%block floordiv 4] of 4 : memref<8xi32>
  loop.guard where (0 < %last) {
    kernel.fence
    %v = loop.load %part[%block mod 4, %thread] : memref<32x64xf32>
    loop.store %v, %part[%block, %thread] : memref<32x64xf32>
  }
}
