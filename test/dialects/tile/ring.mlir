// Rings, asynchronous stages and asynchronous moves survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @ring
func.func @ring(%x: memref<500x3584xf32>, %n: index) {
  tile.launch (%mb = 4 : block, %t = 128 : thread) {
    // CHECK:      tile.ring 3 mbarrier {tag = "kept"}
    // CHECK-NEXT: tile.ring 4 mbarrier producer {tag = "kept"}
    // CHECK-NEXT: %ring = tile.ring 3
    // CHECK-NEXT: %xs = tile.alloc : memref<3x32x128xf32, #tile.memory<shared>>
    %phases = tile.ring 3 mbarrier {tag = "kept"}
    %producer = tile.ring 4 mbarrier producer {tag = "kept"}
    %ring = tile.ring 3
    %xs = tile.alloc : memref<3x32x128xf32, #tile.memory<shared>>
    loop.for %ko = 0 to 112 {
      // CHECK:      tile.wait %ring[%ko]
      tile.wait %ring[%ko]
      // CHECK-NEXT: tile.copy %x[%mb * 128 + d1, %ko * 32 + 64 + d0] to %xs at %ring[%ko + 2] async where (%ko + 2 < 112, %mb < %n) : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      tile.copy %x[%mb * 128 + d1, (%ko + 2) * 32 + d0] to %xs at %ring[%ko + 2] async where (%ko + 2 < 112, %mb < %n) : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      // CHECK-NEXT: tile.copy %x[d1, d0] to %xs at %ring[%ko] {tag = "kept"} : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      tile.copy %x[d1, d0] to %xs at %ring[%ko] {tag = "kept"} : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      // CHECK-NEXT: tile.copy %x[d0, d1] to %xs at %phases[%ko] tma tf32 : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      tile.copy %x[d0, d1] to %xs at %phases[%ko] tma tf32 : memref<500x3584xf32> to memref<3x32x128xf32, #tile.memory<shared>>
      // CHECK-NEXT: tile.release %ring[%ko]
      tile.release %ring[%ko]
      // CHECK-NEXT: tile.stage %x[%mb * 128 + d1, %ko * 32 + d0] buffers 3 async {tag = "kept"} : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
      %s = tile.stage %x[%mb * 128 + d1, %ko * 32 + d0] buffers 3 async {tag = "kept"} : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
      // CHECK-NEXT: tile.stage %x[d0, %ko * 32 + d1] buffers 2 tma tf32 : memref<500x3584xf32> to memref<32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
      %b = tile.stage %x[d0, %ko * 32 + d1] buffers 2 tma tf32 : memref<500x3584xf32> to memref<32x32xf32, #tile.swizzle<128>, #tile.memory<shared>>
    }
  }
  func.return
}

// -----

// CHECK-LABEL: kernel.func @groups
kernel.func @groups(%x: memref<320xf32>) blocks(%b = 1) threads(%t = 32) {
  %s = kernel.alloc : memref<3x32xf32, #tile.memory<shared>>
  // CHECK:      kernel.move 1 async %x[%t] to %s[0, %t] where (%t < 10) : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
  kernel.move 1 async %x[%t] to %s[0, %t] where (%t < 10) : memref<320xf32> to memref<3x32xf32, #tile.memory<shared>>
  // CHECK-NEXT: kernel.commit_group
  kernel.commit_group
  // CHECK-NEXT: kernel.wait_group 0
  kernel.wait_group 0
}
