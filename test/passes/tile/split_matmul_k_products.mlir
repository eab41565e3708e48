// RUN: deplodock-opt %s -p 'split-matmul-k{s=2 over=block}' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'split-matmul-k{s=2 over=ticket}' --check-semantics | filecheck %s --check-prefix TICKET

// A buffer of parts for each sum of one loop; the second launch adds both.
// CHECK:      %g_part = memref.alloc() : memref<2x8x4xf32>
// CHECK-NEXT: %u_part = memref.alloc() : memref<2x8x4xf32>
// CHECK:        %[[G:.*]], %[[U:.*]] = loop.reduce {arith.addf, arith.addf}
// CHECK:        loop.store %[[G]], %g_part[%s
// CHECK-NEXT:   loop.store %[[U]], %u_part[%s
// CHECK:        %[[G2:.*]], %[[U2:.*]] = loop.reduce {arith.addf, arith.addf} %{{.*}} = 0 to 2 : f32, f32 {
// CHECK-NEXT:     %[[A:.*]] = loop.load %g_part[
// CHECK-NEXT:     %[[B:.*]] = loop.load %u_part[
// CHECK-NEXT:     loop.yield %[[A]], %[[B]] : f32, f32
// CHECK:        %y = arith.mulf %[[G2]], %[[U2]] : f32
// CHECK-NOT:  tile.launch

// TICKET: tile.combine {arith.addf, arith.addf} %{{.*}}, %{{.*}} over (%s) : f32, f32
func.func @k(%x: memref<8x16xf32>, %v: memref<4x16xf32>, %w: memref<4x16xf32>, %out: memref<8x4xf32>) {
  tile.launch (%m = 8 : thread, %n = 4 : thread) {
    %g, %u = loop.reduce {arith.addf, arith.addf} %k = 0 to 16 : f32, f32 {
      %a = loop.load %x[%m, %k] : memref<8x16xf32>
      %b = loop.load %v[%n, %k] : memref<4x16xf32>
      %p = arith.mulf %a, %b : f32
      %c = loop.load %w[%n, %k] : memref<4x16xf32>
      %q = arith.mulf %a, %c : f32
      loop.yield %p, %q : f32, f32
    }
    %y = arith.mulf %g, %u : f32
    loop.store %y, %out[%m, %n] : memref<8x4xf32>
  }
  func.return
}
