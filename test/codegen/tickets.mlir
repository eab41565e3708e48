// RUN: deplodock-opt %s -t cuda | filecheck %s

// A ticket is taken by one thread and known to all; memory that is written and read has no restrict.
// CHECK:       int take_ticket(int* counter, unsigned ctas) {
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    atomicInc(reinterpret_cast<unsigned*>(counter), ctas - 1) == ctas - 1;
// CHECK-NEXT:    return __syncthreads_or(is_last) != 0;
// In a role its own threads take it, with the barrier of the role.
// CHECK:       int take_role_ticket(int* counter, unsigned ctas, int thread, int barrier, int threads) {
// CHECK-NEXT:    asm volatile("bar.sync %0, %1;"
// CHECK:           "bar.red.or.pred some, %2, %3, mine;\n"
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

// How many CTAs there are may depend on the CTA.
// CHECK:       in_a_role(int* turns) {
// CHECK:           const int last = take_role_ticket(&turns[block / 4], block / 8 + 1, reader, 2, 128);
kernel.func @in_a_role(%turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 256) {
  kernel.roles {
    kernel.role producer(%copier = 128) {
    }
    kernel.role consumers(%reader = 128) {
      %last = kernel.ticket %turns[%block floordiv 4] of %block floordiv 8 + 1 : memref<8xi32>
    }
  }
}

// A branch that sets registers stays one.
// CHECK:       sums_anew(
// CHECK:           for (
// CHECK-NEXT:        if ({{.*}} < 1) {
// CHECK-NEXT:          asm volatile("");
// CHECK-NEXT:          sum[0] = 0.0f;
kernel.func @sums_anew(%out: memref<32x64xf32>) blocks(%block = 32) threads(%thread = 64) {
  %sum = kernel.alloc : memref<1xf32, #tile.memory<register>>
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 8 {
    loop.guard where (%i mod 4 < 1) {
      loop.store %zero, %sum[0] : memref<1xf32, #tile.memory<register>>
    }
    %v = loop.load %sum[0] : memref<1xf32, #tile.memory<register>>
    loop.store %v, %out[%block, %thread] : memref<32x64xf32>
  }
}
