// Waits for launches, fences, tickets and counters survive custom -> generic -> custom.
// RUN: %roundtrip

// CHECK:      %turns = kernel.counters : memref<8xi32>
// CHECK-NEXT: %more = kernel.counters {tag = "kept"} : memref<8xi32>
func.func @main() {
  %turns = kernel.counters : memref<8xi32>
  %more = kernel.counters {tag = "kept"} : memref<8xi32>
  kernel.launch @k(%turns) : memref<8xi32>
  kernel.launch @k(%more) : memref<8xi32>
  func.return
}

// CHECK:      kernel.await_launches
// CHECK-NEXT: kernel.fence
// CHECK-NEXT: kernel.fence {tag = "kept"}
// CHECK-NEXT: %last = kernel.ticket %turns[%block floordiv 4] of 4 : memref<8xi32>
// CHECK-NEXT: kernel.ticket %turns[0] of 1 {tag = "kept"} : memref<8xi32>
// CHECK-NEXT: kernel.ticket %turns[%block floordiv 4] of %block floordiv 8 + 1 : memref<8xi32>
// CHECK-NEXT: loop.guard where (0 < %last) {
kernel.func @k(%turns: memref<8xi32>) blocks(%block = 32) threads(%thread = 64) {
  kernel.await_launches
  kernel.fence
  kernel.fence {tag = "kept"}
  %last = kernel.ticket %turns[%block floordiv 4] of 4 : memref<8xi32>
  %other = kernel.ticket %turns[0] of 1 {tag = "kept"} : memref<8xi32>
  %varying = kernel.ticket %turns[%block floordiv 4] of %block floordiv 8 + 1 : memref<8xi32>
  loop.guard where (0 < %last) {
    kernel.barrier
  }
}
