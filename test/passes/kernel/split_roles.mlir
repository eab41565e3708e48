// Rings with a producer: one thread of a warpgroup of its own copies, the others read at their pace.
// RUN: deplodock-opt %s -p 'expand-launch,verify-rings,lower-copies' | filecheck %s
// RUN: deplodock-opt %s -p 'materialize,place-barriers,verify-barriers,verify-resources' | filecheck %s --check-prefix KERNEL
// RUN: sed 's/ occupancy 4//' %s | deplodock-opt -p 'expand-launch,lower-copies' | filecheck %s --check-prefix ENOUGH
// RUN: deplodock-opt %s -p 'start-early,expand-launch,lower-copies' | filecheck %s --check-prefix EARLY
// RUN: sed 's/t = 128 : thread/t = 96 : thread/' %s | not deplodock-opt -p 'expand-launch,lower-copies' 2>&1 | filecheck %s --check-prefix WHOLE
// RUN: sed 's/tile.copy %x.%b, /tile.copy %x[%at, /' %s | not deplodock-opt -p 'expand-launch,lower-copies' 2>&1 | filecheck %s --check-prefix LOADED

// WHOLE: tile.ring: a producer is a warpgroup beside others, and 96 threads are no whole ones
// LOADED: tile.copy: a producer cannot compute %at, which it takes

// What makes the slots touches no memory of the GPU, so it does not wait for the launches before.
// EARLY:      %empty = kernel.mbarrier 3 arrivals 4
// EARLY-NEXT: %xs = kernel.alloc
// EARLY-NEXT: kernel.await_launches
// EARLY-NEXT: kernel.roles {

// Both parts have the loop; subscripts are with those that use them; the slots and their barriers stand before.
// CHECK:      tile.launch (%b = 4 : block, %thread = 256 : thread) occupancy 4 attributes {expanded} {
// CHECK-NEXT:   %full = kernel.mbarrier 3 arrivals 1
// CHECK-NEXT:   %empty = kernel.mbarrier 3 arrivals 4
// CHECK-NEXT:   %xs = kernel.alloc : memref<3x128xf32, #tile.memory<shared>>
// CHECK-NEXT:   kernel.roles {
// CHECK-NEXT:     kernel.role producer(%copier = 128) registers 24 {
// CHECK-NEXT:       loop.guard where (%copier < 1) {
// CHECK-NEXT:         loop.for %i = 0 to 10 {
// CHECK-NEXT:           kernel.wait_phase %empty[%i mod 3], (%i floordiv 3 + 1) mod 2
// CHECK-NEXT:           kernel.arrive %full[%i mod 3] expect 512
// CHECK-NEXT:           kernel.tma_load %x_map[%b, %i * 128] to %xs[%i mod 3, 0] signal %full[%i mod 3]
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK-NEXT:     kernel.role consumers(%reader = 128) registers 104 {
// CHECK-NOT:        kernel.tma_load
// CHECK:            loop.for %i_1 = 0 to 10 {
// CHECK:              kernel.wait_phase %full[%i_1 mod 3], %i_1 floordiv 3 mod 2
// CHECK:              loop.load %xs[%i_1 mod 3, %t * -1 + 127]
// CHECK:              kernel.arrive warp %empty[%i_1 mod 3]
// CHECK-NOT:        kernel.tma_load
// CHECK:            loop.store %{{.*}}, %out[%b, %t]

// The one barrier of the CTA is for the barriers of the slots.
// KERNEL:     kernel.func @k(%x_map: {{.*}}) blocks(%block = 4) threads(%thread = 256) occupancy 4 {
// KERNEL:     kernel.fence_proxy_async
// KERNEL:     kernel.barrier
// KERNEL:     kernel.roles {
// KERNEL-NOT: kernel.barrier
// KERNEL:     kernel.launch

// Where all registers that a thread may have are there, roles ask for none.
// ENOUGH: kernel.role producer(%copier = 128) {
// ENOUGH: kernel.role consumers(%reader = 128) {
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @k(%x: memref<4x1280xf32>, %p: memref<4xi32>, %out: memref<4x128xf32>) {
    tile.launch (%b = 4 : block, %t = 128 : thread) occupancy 4 {
      %row = loop.load %p[%b] : memref<4xi32>
      %at = arith.index_cast %row : i32 to index
      %ring = tile.ring 3 mbarrier producer
      %xs = tile.alloc : memref<3x128xf32, #tile.memory<shared>>
      %acc = loop.reduce {arith.addf} %i = 0 to 10 : f32 {
        %first = loop.index [%i * 128]
        tile.copy %x[%b, %first + d0] to %xs at %ring[%i] tma : memref<4x1280xf32> to memref<3x128xf32, #tile.memory<shared>>
        tile.wait %ring[%i]
        %v = loop.load %xs[%i mod 3, 127 - %t] : memref<3x128xf32, #tile.memory<shared>>
        tile.release %ring[%i]
        loop.yield %v : f32
      }
      loop.store %acc, %out[%b, %t] : memref<4x128xf32>
    }
    func.return
  }
}
