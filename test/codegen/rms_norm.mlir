// RUN: deplodock-opt %s -t cuda | filecheck %s --strict-whitespace --match-full-lines

// The whole text of a kernel: staged rows in registers, a combine over lanes and warps, vector accesses.
kernel.func @k_rms_norm(%x: memref<1x32x2048xf32>, %w: memref<2048xf32>, %out: memref<1x32x2048xf32>) blocks(%block = 32) threads(%thread = 256) occupancy 1 {
  %inv_n = arith.constant 0.00048828125 : f32
  %eps = arith.constant 1.000000e-06 : f32
  %part = kernel.alloc : memref<8xf32, #tile.memory<shared>>
  %a0 = loop.index [%block]
  %t = loop.index [%thread]
  %in = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 2 unroll {
    kernel.move 4 %x[0, %a0, %i * 1024 + %t * 4] to %in[%i, 0] : memref<1x32x2048xf32> to memref<2x4xf32, #tile.memory<register>>
  }
  %acc = kernel.alloc : memref<f32, #tile.memory<register>>
  %0 = arith.constant 0.000000e+00 : f32
  loop.store %0, %acc[] : memref<f32, #tile.memory<register>>
  loop.for %i_1 = 0 to 2 unroll {
    loop.for %v = 0 to 4 unroll {
      %in_1 = loop.load %in[%i_1, %v] : memref<2x4xf32, #tile.memory<register>>
      %sq = arith.mulf %in_1, %in_1 : f32
      %1 = loop.load %acc[] : memref<f32, #tile.memory<register>>
      %2 = arith.addf %1, %sq : f32
      loop.store %2, %acc[] : memref<f32, #tile.memory<register>>
    }
  }
  %3 = loop.load %acc[] : memref<f32, #tile.memory<register>>
  %4 = kernel.shuffle_xor %3, 16 : f32
  %5 = arith.addf %3, %4 : f32
  %6 = kernel.shuffle_xor %5, 8 : f32
  %7 = arith.addf %5, %6 : f32
  %8 = kernel.shuffle_xor %7, 4 : f32
  %9 = arith.addf %7, %8 : f32
  %10 = kernel.shuffle_xor %9, 2 : f32
  %11 = arith.addf %9, %10 : f32
  %12 = kernel.shuffle_xor %11, 1 : f32
  %13 = arith.addf %11, %12 : f32
  loop.guard where (%thread mod 32 < 1) {
    loop.store %13, %part[%thread floordiv 32] : memref<8xf32, #tile.memory<shared>>
  }
  kernel.barrier
  loop.store %0, %acc[] : memref<f32, #tile.memory<register>>
  loop.for %warp = 0 to 8 unroll {
    %15 = loop.load %part[%warp] : memref<8xf32, #tile.memory<shared>>
    %16 = loop.load %acc[] : memref<f32, #tile.memory<register>>
    %17 = arith.addf %16, %15 : f32
    loop.store %17, %acc[] : memref<f32, #tile.memory<register>>
  }
  %acc_1 = loop.load %acc[] : memref<f32, #tile.memory<register>>
  %mean = arith.mulf %acc_1, %inv_n : f32
  %me = arith.addf %mean, %eps : f32
  %r = math.rsqrt %me : f32
  %wv = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i_2 = 0 to 2 unroll {
    kernel.move 4 %w[%i_2 * 1024 + %t * 4] to %wv[%i_2, 0] : memref<2048xf32> to memref<2x4xf32, #tile.memory<register>>
  }
  %y = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  loop.for %i_3 = 0 to 2 unroll {
    loop.for %v_1 = 0 to 4 unroll {
      %in_2 = loop.load %in[%i_3, %v_1] : memref<2x4xf32, #tile.memory<register>>
      %s = arith.mulf %in_2, %r : f32
      %wv_1 = loop.load %wv[%i_3, %v_1] : memref<2x4xf32, #tile.memory<register>>
      %y_1 = arith.mulf %s, %wv_1 : f32
      loop.store %y_1, %y[%i_3, %v_1] : memref<2x4xf32, #tile.memory<register>>
    }
  }
  loop.for %i_4 = 0 to 2 unroll {
    kernel.move 4 %y[%i_4, 0] to %out[0, %a0, %i_4 * 1024 + %t * 4] : memref<2x4xf32, #tile.memory<register>> to memref<1x32x2048xf32>
  }
}

//      CHECK:extern "C" __global__ void __launch_bounds__(256, 1) k_rms_norm(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ out) {
// CHECK-NEXT:  const int block = blockIdx.x, thread = threadIdx.x;
// CHECK-NEXT:  __shared__ __align__(16) float part[8];
// CHECK-NEXT:  const int a0 = block;
// CHECK-NEXT:  const int t = thread;
// CHECK-NEXT:  __align__(16) float in[2][4];
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int i = 0; i < 2; ++i) {
// CHECK-NEXT:    *reinterpret_cast<float4*>(&in[i][0]) = *reinterpret_cast<const float4*>(&(x + (a0 * 2048 + t * 4))[i * 1024]);
// CHECK-NEXT:  }
// CHECK-NEXT:  float acc;
// CHECK-NEXT:  acc = 0.0f;
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int i_1 = 0; i_1 < 2; ++i_1) {
// CHECK-NEXT:    #pragma unroll
// CHECK-NEXT:    for (int v = 0; v < 4; ++v) {
// CHECK-NEXT:      const float in_1 = in[i_1][v];
// CHECK-NEXT:      const float sq = in_1 * in_1;
// CHECK-NEXT:      const float v_1 = acc;
// CHECK-NEXT:      const float v_2 = v_1 + sq;
// CHECK-NEXT:      acc = v_2;
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CHECK-NEXT:  const float v_3 = acc;
// CHECK-NEXT:  const float v_4 = __shfl_xor_sync(0xffffffff, v_3, 16);
// CHECK-NEXT:  const float v_5 = v_3 + v_4;
// CHECK-NEXT:  const float v_6 = __shfl_xor_sync(0xffffffff, v_5, 8);
// CHECK-NEXT:  const float v_7 = v_5 + v_6;
// CHECK-NEXT:  const float v_8 = __shfl_xor_sync(0xffffffff, v_7, 4);
// CHECK-NEXT:  const float v_9 = v_7 + v_8;
// CHECK-NEXT:  const float v_10 = __shfl_xor_sync(0xffffffff, v_9, 2);
// CHECK-NEXT:  const float v_11 = v_9 + v_10;
// CHECK-NEXT:  const float v_12 = __shfl_xor_sync(0xffffffff, v_11, 1);
// CHECK-NEXT:  const float v_13 = v_11 + v_12;
// CHECK-NEXT:  if (thread % 32 < 1) {
// CHECK-NEXT:    part[thread / 32] = v_13;
// CHECK-NEXT:  }
// CHECK-NEXT:  __syncthreads();
// CHECK-NEXT:  acc = 0.0f;
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int warp = 0; warp < 8; ++warp) {
// CHECK-NEXT:    const float v_14 = part[warp];
// CHECK-NEXT:    const float v_15 = acc;
// CHECK-NEXT:    const float v_16 = v_15 + v_14;
// CHECK-NEXT:    acc = v_16;
// CHECK-NEXT:  }
// CHECK-NEXT:  const float acc_1 = acc;
// CHECK-NEXT:  const float mean = acc_1 * 0.00048828125f;
// CHECK-NEXT:  const float me = mean + 1e-06f;
// CHECK-NEXT:  const float r = rsqrtf(me);
// CHECK-NEXT:  __align__(16) float wv[2][4];
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int i_2 = 0; i_2 < 2; ++i_2) {
// CHECK-NEXT:    *reinterpret_cast<float4*>(&wv[i_2][0]) = *reinterpret_cast<const float4*>(&(w + (t * 4))[i_2 * 1024]);
// CHECK-NEXT:  }
// CHECK-NEXT:  __align__(16) float y[2][4];
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int i_3 = 0; i_3 < 2; ++i_3) {
// CHECK-NEXT:    #pragma unroll
// CHECK-NEXT:    for (int v_17 = 0; v_17 < 4; ++v_17) {
// CHECK-NEXT:      const float in_2 = in[i_3][v_17];
// CHECK-NEXT:      const float s = in_2 * r;
// CHECK-NEXT:      const float wv_1 = wv[i_3][v_17];
// CHECK-NEXT:      const float y_1 = s * wv_1;
// CHECK-NEXT:      y[i_3][v_17] = y_1;
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CHECK-NEXT:  #pragma unroll
// CHECK-NEXT:  for (int i_4 = 0; i_4 < 2; ++i_4) {
// CHECK-NEXT:    *reinterpret_cast<float4*>(&(out + (a0 * 2048 + t * 4))[i_4 * 1024]) = *reinterpret_cast<const float4*>(&y[i_4][0]);
// CHECK-NEXT:  }
// CHECK-NEXT:}
