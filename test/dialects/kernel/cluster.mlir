// Clusters survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 occupancy 2 {
// CHECK:        kernel.cluster_barrier
// CHECK-NEXT:   kernel.cluster_barrier {tag = "kept"}
// CHECK-NEXT:   kernel.cluster_load %part[1, %thread] of (%block + 1) mod 4 : memref<2x64xf32, #tile.memory<shared>>
// CHECK-NEXT:   kernel.cluster_load %part[0, %thread] of 3 {tag = "kept"} : memref<2x64xf32, #tile.memory<shared>>
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 occupancy 2 {
  %part = kernel.alloc : memref<2x64xf32, #tile.memory<shared>>
  kernel.cluster_barrier
  kernel.cluster_barrier {tag = "kept"}
  %v = kernel.cluster_load %part[1, %thread] of (%block + 1) mod 4 : memref<2x64xf32, #tile.memory<shared>>
  %w = kernel.cluster_load %part[0, %thread] of 3 {tag = "kept"} : memref<2x64xf32, #tile.memory<shared>>
}
