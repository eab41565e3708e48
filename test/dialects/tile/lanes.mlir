// Lane axes survive custom -> generic -> custom, whether their carrier stands before or after them.
// RUN: %roundtrip

// CHECK-LABEL: func.func @lanes
func.func @lanes(%n: index) {
  // CHECK-NEXT: tile.launch (%k = 4 : lane %t, %g = 8 : thread, %t = 4 : thread, %c = 8 : lane %g, %v = 2 : register) {
  // CHECK-NEXT: }
  tile.launch (%k = 4 : lane %t, %g = 8 : thread, %t = 4 : thread, %c = 8 : lane %g, %v = 2 : register) {
  }
  // CHECK-NEXT: tile.launch (%u = %n : thread, %w = %n : lane %u) {
  // CHECK-NEXT: }
  tile.launch (%u = %n : thread, %w = %n : lane %u) {
  }
  func.return
}
