// Every form of tile.contract survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @contract
func.func @contract(%x: memref<8x64xbf16>, %y: memref<8x64xbf16>, %i: i8) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %r = 2 : register, %v = 16 : register, %k = 4 : lane %t, %n = 8 : lane %g) {
    %a = loop.load %x[%g, %k * 16 + %v] : memref<8x64xbf16>
    %b = loop.load %y[%n, %k * 16 + %v] : memref<8x64xbf16>
    // CHECK: %c = tile.contract mma %a * %b over (%k, %v) at (%n = %t * 2 + %r) : bf16, bf16 -> f32
    %c = tile.contract mma %a * %b over (%k, %v) at (%n = %t * 2 + %r) : bf16, bf16 -> f32
    // CHECK-NEXT: %d = tile.contract mma %a * %b + %b * %a over (%v) {tag = "kept"} : bf16, bf16 -> f32
    %d = tile.contract mma %a * %b + %b * %a over (%v) {tag = "kept"} : bf16, bf16 -> f32
    // CHECK-NEXT: %f = tile.contract mma %i * %i over (%v) : i8, i8 -> i32
    %f = tile.contract mma %i * %i over (%v) : i8, i8 -> i32
    // CHECK-NEXT: %e = tile.contract other %a * %b over (%v) at (%k = %t, %n = %g + 1) : bf16, bf16 -> f64
    %e = tile.contract other %a * %b over (%v) at (%k = %t, %n = %g + 1) : bf16, bf16 -> f64
  }
  func.return
}
