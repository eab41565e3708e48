// Roles survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      kernel.roles {
// CHECK-NEXT:   kernel.role producer(%copier = 128) registers 24 {
// CHECK-NEXT:     loop.guard where (%copier < 1) {
// CHECK:        kernel.role consumers(%reader = 256) registers 240 attributes {deplodock.note} {
// CHECK-NEXT:     kernel.barrier
kernel.func @registers() blocks(%block = 2) threads(%thread = 384) occupancy 1 {
  %full = kernel.mbarrier 1 arrivals 1
  kernel.barrier
  kernel.roles {
    kernel.role producer(%copier = 128) registers 24 {
      loop.guard where (%copier < 1) {
        kernel.arrive %full[0]
      }
    }
    kernel.role consumers(%reader = 256) registers 240 attributes {deplodock.note} {
      kernel.barrier
      kernel.wait_phase %full[0], 0
    }
  }
}

// CHECK:      kernel.role one(%thread_1 = 32) {
// CHECK-NEXT: }
// CHECK-NEXT: kernel.role other(%thread_2 = 64) {
kernel.func @warps() blocks(%block = 1) threads(%thread = 96) {
  kernel.roles {
    kernel.role one(%thread_1 = 32) {}
    kernel.role other(%thread_2 = 64) {}
  }
}
