// Barriers with phases survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      %full = kernel.mbarrier 3 arrivals 65
// CHECK-NEXT: %empty = kernel.mbarrier 3 arrivals 2 {tag = "kept"}
// CHECK-NEXT: kernel.barrier
// CHECK-NEXT: loop.for %k = 0 to 10 {
// CHECK-NEXT:   kernel.wait_phase %empty[%k mod 3], %k floordiv 3 mod 2 + 1
// CHECK-NEXT:   kernel.arrive %full[%k mod 3] expect 16384
// CHECK-NEXT:   kernel.arrive_copies %full[%k mod 3]
// CHECK-NEXT:   kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2 {tag = "kept"}
// CHECK-NEXT:   kernel.arrive warp %empty[%k mod 3]
// CHECK-NEXT:   kernel.arrive %empty[0] {tag = "kept"}
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 3 arrivals 65
  %empty = kernel.mbarrier 3 arrivals 2 {tag = "kept"}
  kernel.barrier
  loop.for %k = 0 to 10 {
    kernel.wait_phase %empty[%k mod 3], (%k floordiv 3) mod 2 + 1
    kernel.arrive %full[%k mod 3] expect 16384
    kernel.arrive_copies %full[%k mod 3]
    kernel.wait_phase %full[%k mod 3], %k floordiv 3 mod 2 {tag = "kept"}
    kernel.arrive warp %empty[%k mod 3]
    kernel.arrive %empty[0] {tag = "kept"}
  }
}
