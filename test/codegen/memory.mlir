// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// A guarded wide load fills with zeros; the loads are not evaluated where the condition fails.
// CHECK-LABEL: k_where
// CHECK:         __align__(16) float r[4];
// CHECK-NEXT:    *reinterpret_cast<float4*>(&r[0]) = (thread * 4 < 1000) ? *reinterpret_cast<const float4*>(&x[block * 1000 + thread * 4]) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
// CHECK-NEXT:    __shared__ __align__(16) float s[256];
// CHECK-NEXT:    s[thread] = (thread < 250 && block < 3) ? x[block * 1000 + thread] : 0.0f;
// CHECK-NEXT:    __syncthreads();
// CHECK-NEXT:    if (thread * 4 < 1000) {
// CHECK-NEXT:      *reinterpret_cast<float4*>(&out[block * 1000 + thread * 4]) = *reinterpret_cast<const float4*>(&r[0]);
// CHECK-NEXT:    }
kernel.func @k_where(%x: memref<4x1000xf32>, %out: memref<4x1000xf32>) blocks(%block = 4) threads(%thread = 256) {
  %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.move 4 %x[%block, %thread * 4] to %r[0] where (%thread * 4 < 1000) : memref<4x1000xf32> to memref<4xf32, #tile.memory<register>>
  %s = kernel.alloc : memref<256xf32, #tile.memory<shared>>
  kernel.move 1 %x[%block, %thread] to %s[%thread] where (%thread < 250, %block < 3) : memref<4x1000xf32> to memref<256xf32, #tile.memory<shared>>
  kernel.barrier
  loop.guard where (%thread * 4 < 1000) {
    kernel.move 4 %r[0] to %out[%block, %thread * 4] : memref<4xf32, #tile.memory<register>> to memref<4x1000xf32>
  }
}

// -----

// Every width of every type.
// CHECK-LABEL: k_widths(const double* __restrict__ d, const int* __restrict__ i, const long long* __restrict__ l, const bool* __restrict__ b,
// CHECK:         *reinterpret_cast<double2*>(&d_out[thread * 2]) = *reinterpret_cast<const double2*>(&d[thread * 2]);
// CHECK-NEXT:    *reinterpret_cast<int2*>(&i_out[thread * 2]) = *reinterpret_cast<const int2*>(&i[thread * 2]);
// CHECK-NEXT:    *reinterpret_cast<int4*>(&i_out[thread * 4]) = *reinterpret_cast<const int4*>(&i[thread * 4]);
// CHECK-NEXT:    *reinterpret_cast<longlong2*>(&l_out[thread * 2]) = *reinterpret_cast<const longlong2*>(&l[thread * 2]);
// CHECK-NEXT:    *reinterpret_cast<uchar2*>(&b_out[thread * 2]) = *reinterpret_cast<const uchar2*>(&b[thread * 2]);
// CHECK-NEXT:    *reinterpret_cast<uchar4*>(&b_out[thread * 4]) = *reinterpret_cast<const uchar4*>(&b[thread * 4]);
// CHECK-NEXT:    *reinterpret_cast<uint2*>(&b_out[thread * 8]) = *reinterpret_cast<const uint2*>(&b[thread * 8]);
// CHECK-NEXT:    __shared__ __align__(16) bool s[512];
// CHECK-NEXT:    *reinterpret_cast<uint4*>(&s[thread * 16]) = (thread < 31) ? *reinterpret_cast<const uint4*>(&b[thread * 16]) : make_uint4(0, 0, 0, 0);
kernel.func @k_widths(%d: memref<512xf64>, %i: memref<512xi32>, %l: memref<512xi64>, %b: memref<512xi1>, %d_out: memref<512xf64>, %i_out: memref<512xi32>, %l_out: memref<512xi64>, %b_out: memref<512xi1>) blocks(%block = 1) threads(%thread = 32) {
  kernel.move 2 %d[%thread * 2] to %d_out[%thread * 2] : memref<512xf64> to memref<512xf64>
  kernel.move 2 %i[%thread * 2] to %i_out[%thread * 2] : memref<512xi32> to memref<512xi32>
  kernel.move 4 %i[%thread * 4] to %i_out[%thread * 4] : memref<512xi32> to memref<512xi32>
  kernel.move 2 %l[%thread * 2] to %l_out[%thread * 2] : memref<512xi64> to memref<512xi64>
  kernel.move 2 %b[%thread * 2] to %b_out[%thread * 2] : memref<512xi1> to memref<512xi1>
  kernel.move 4 %b[%thread * 4] to %b_out[%thread * 4] : memref<512xi1> to memref<512xi1>
  kernel.move 8 %b[%thread * 8] to %b_out[%thread * 8] : memref<512xi1> to memref<512xi1>
  %s = kernel.alloc : memref<512xi1, #tile.memory<shared>>
  kernel.move 16 %b[%thread * 16] to %s[%thread * 16] where (%thread < 31) : memref<512xi1> to memref<512xi1, #tile.memory<shared>>
}

// -----

// Padded rows; a scalar register and a scalar in shared memory.
// CHECK-LABEL: k_layouts
// CHECK:         __shared__ __align__(16) float slab[1052];
// CHECK-NEXT:    __shared__ __align__(16) double one[1];
// CHECK-NEXT:    float acc;
// CHECK-NEXT:    float gaps[19];
// CHECK-NEXT:    const float v = slab[thread / 4 * 132 + thread % 4 + 3];
// CHECK-NEXT:    acc = v;
// CHECK-NEXT:    gaps[thread / 16 * 8 + 2] = v;
// CHECK-NEXT:    const double v_1 = one[0];
kernel.func @k_layouts() blocks(%block = 1) threads(%thread = 32) {
  %slab = kernel.alloc : memref<8x128xf32, strided<[132, 1]>, #tile.memory<shared>>
  %one = kernel.alloc : memref<f64, #tile.memory<shared>>
  %acc = kernel.alloc : memref<f32, #tile.memory<register>>
  %gaps = kernel.alloc : memref<3xf32, strided<[8], offset: 2>, #tile.memory<register>>
  %0 = loop.load %slab[%thread floordiv 4, %thread mod 4 + 3] : memref<8x128xf32, strided<[132, 1]>, #tile.memory<shared>>
  loop.store %0, %acc[] : memref<f32, #tile.memory<register>>
  loop.store %0, %gaps[%thread floordiv 16] : memref<3xf32, strided<[8], offset: 2>, #tile.memory<register>>
  %1 = loop.load %one[] : memref<f64, #tile.memory<shared>>
}

// -----

// More than 48 KB of shared memory is one dynamic pool.
// CHECK-LABEL: k_pool
// CHECK:         extern __shared__ __align__(16) unsigned char shared_memory_16[];
// CHECK-NEXT:    float* const a = reinterpret_cast<float*>(shared_memory_16 + 0);
// CHECK-NEXT:    bool* const flags = reinterpret_cast<bool*>(shared_memory_16 + 49152);
// CHECK-NEXT:    double* const b = reinterpret_cast<double*>(shared_memory_16 + 49168);
// CHECK-NEXT:    a[thread] = 1.0f;
kernel.func @k_pool() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<12288xf32, #tile.memory<shared>>
  %flags = kernel.alloc : memref<3xi1, #tile.memory<shared>>
  %b = kernel.alloc : memref<4xf64, #tile.memory<shared>>
  %one = arith.constant 1.0 : f32
  loop.store %one, %a[%thread] : memref<12288xf32, #tile.memory<shared>>
}

// -----

// Exactly 48 KB is static.
// CHECK-LABEL: k_static
// CHECK:         __shared__ __align__(16) float a[12288];
kernel.func @k_static() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<12288xf32, #tile.memory<shared>>
}

// -----

// A buffer that is read and written may not be promised to be the only way to its memory; scalars are passed by value.
// CHECK-LABEL: k_roles(const float* __restrict__ read, float* __restrict__ written, float* both, const float* __restrict__ unused, float s, long long n)
kernel.func @k_roles(%read: memref<32xf32>, %written: memref<32xf32>, %both: memref<32xf32>, %unused: memref<32xf32>, %s: f32, %n: index) blocks(%block = 1) threads(%thread = 32) {
  %v = loop.load %read[%thread] : memref<32xf32>
  %w = loop.load %both[%thread] : memref<32xf32>
  loop.store %v, %both[%thread] : memref<32xf32>
  loop.store %w, %written[%thread] : memref<32xf32>
}
