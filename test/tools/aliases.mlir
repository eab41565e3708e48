// RUN: deplodock-opt %s --print-debuginfo | filecheck %s
// RUN: deplodock-opt %s --print-debuginfo | deplodock-opt --print-debuginfo | filecheck %s

// Aliases may be used before the line that defines them, as mlir-opt prints those of locations.

// CHECK:      func.func @f(%x: f32 loc("model.py":7:8), %y: memref<4xf32> loc("model.py":7:8)) -> f32 attributes {a = affine_map<(d0) -> ((d0 + 1))>} {
// CHECK-NEXT:   %w = arith.addf %x, %x : f32 loc(fused<"inlined">["model.py":7:8, "called"("model.py":7:8)])
// CHECK-NEXT:   func.return %w : f32 loc(callsite("model.py":7:8 at "main.py":1:2))
// CHECK-NEXT: } loc("model.py":7:8)
func.func @f(%x: !scalar loc(#place), %y: memref<4x!scalar> loc(#place)) -> !scalar attributes {a = #map} {
  %w = arith.addf %x, %x : !scalar loc(#parts)
  func.return %w : f32 loc(#call)
} loc(#place)
#parts = loc(fused<"inlined">[#place, #named])
#named = loc("called"(#place))
#call = loc(callsite(#place at "main.py":1:2))
#place = loc("model.py":7:8)
#map = affine_map<(d0) -> (d0 + 1)>
!scalar = f32
