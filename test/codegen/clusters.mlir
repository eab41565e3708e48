// RUN: deplodock-opt %s -t cuda | filecheck %s

// Clusters are compiled in; another CTA's shared memory is read through an address that `mapa` makes of the own one.
// CHECK:       barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
// CHECK:       mapa.u64 %0, %1, %2;
// CHECK:       extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) next_of_four(
// CHECK:         cluster_barrier();
// CHECK-NEXT:    v[0] = *cluster_address(&part[thread], (block + 1) % 4);
// CHECK-NEXT:    *reinterpret_cast<float4*>(&v[0]) = *reinterpret_cast<const float4*>(cluster_address(&part[thread % 16 * 4], 3));
// CHECK-NEXT:    cluster_barrier();
kernel.func @next_of_four(%out: memref<8x64xf32>) blocks(%block = 8) threads(%thread = 64) cluster 4 {
  %part = kernel.alloc : memref<64xf32, #tile.memory<shared>>
  %zero = arith.constant 0.0 : f32
  loop.store %zero, %part[%thread] : memref<64xf32, #tile.memory<shared>>
  %v = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.cluster_barrier
  kernel.cluster_move 1 %part[%thread] of (%block + 1) mod 4 to %v[0] : memref<64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
  kernel.cluster_move 4 %part[%thread mod 16 * 4] of 3 to %v[0] : memref<64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
  kernel.cluster_barrier
  %first = loop.load %v[0] : memref<4xf32, #tile.memory<register>>
  loop.store %first, %out[%block, %thread] : memref<8x64xf32>
}
