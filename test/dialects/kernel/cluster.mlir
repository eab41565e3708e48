// Clusters survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 occupancy 2 {
// CHECK:        kernel.cluster_barrier
// CHECK-NEXT:   kernel.cluster_barrier {tag = "kept"}
// CHECK-NEXT:   kernel.cluster_move 1 %part[1, %thread] of (%block + 1) mod 4 to %v[3] : memref<2x64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:   kernel.cluster_move 4 %part[0, %thread * 4] of 3 to %v[0] {tag = "kept"} : memref<2x64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
kernel.func @k() blocks(%block = 8) threads(%thread = 64) cluster 4 occupancy 2 {
  %part = kernel.alloc : memref<2x64xf32, #tile.memory<shared>>
  %v = kernel.alloc : memref<4xf32, #tile.memory<register>>
  kernel.cluster_barrier
  kernel.cluster_barrier {tag = "kept"}
  kernel.cluster_move 1 %part[1, %thread] of (%block + 1) mod 4 to %v[3] : memref<2x64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
  kernel.cluster_move 4 %part[0, %thread * 4] of 3 to %v[0] {tag = "kept"} : memref<2x64xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
}
