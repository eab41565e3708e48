// RUN: deplodock-opt %s -p 'flatten-contraction' --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p 'flatten-contraction' --split-input-file --check-semantics

// The axes of a role become one, where the last of them was, and so do the loops along k; old coordinates are computed.
// CHECK:      tile.launch (%c = 8 : thread, %n = 30 : thread) {
// CHECK-NEXT:   %b = loop.index [%n floordiv 15]
// CHECK-NEXT:   %y = loop.index [%n floordiv 5 mod 3]
// CHECK-NEXT:   %x = loop.index [%n mod 5]
// CHECK-NEXT:   %acc = loop.reduce {arith.addf} %k = 0 to 24 : f32 {
// CHECK-NEXT:     %i = loop.index [%k floordiv 6]
// CHECK-NEXT:     %h = loop.index [%k floordiv 2 mod 3]
// CHECK-NEXT:     %w = loop.index [%k mod 2]
// CHECK-NEXT:     %a = loop.load %image[%b, %i, %y + %h, %x + %w]
// CHECK-NEXT:     %v = loop.load %weight[%c, %i, %h, %w]
// CHECK-NEXT:     %p = arith.mulf %a, %v : f32
// CHECK-NEXT:     loop.yield %p : f32
// CHECK-NEXT:   }
// CHECK-NEXT:   loop.store %acc, %out[%b, %c, %y, %x]
func.func @windows(%image: memref<2x4x5x6xf32>, %weight: memref<8x4x3x2xf32>, %out: memref<2x8x3x5xf32>) {
  tile.launch (%b = 2 : thread, %c = 8 : thread, %y = 3 : thread, %x = 5 : thread) {
    %acc = loop.reduce {arith.addf} %i = 0 to 4 : f32 {
      %0 = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
        %1 = loop.reduce {arith.addf} %w = 0 to 2 : f32 {
          %a = loop.load %image[%b, %i, %y + %h, %x + %w] : memref<2x4x5x6xf32>
          %v = loop.load %weight[%c, %i, %h, %w] : memref<8x4x3x2xf32>
          %p = arith.mulf %a, %v : f32
          loop.yield %p : f32
        }
        loop.yield %1 : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%b, %c, %y, %x] : memref<2x8x3x5xf32>
  }
  func.return
}

// -----

// A batch, along which both factors vary, stays as it is; what each axis alone is for has nothing to join.
// CHECK-LABEL: @batch
// CHECK:       tile.launch (%b = 2 : thread, %m = 12 : thread, %n = 5 : thread) {
// CHECK-NEXT:    %y = loop.index [%m floordiv 4]
// CHECK-NEXT:    %x = loop.index [%m mod 4]
// CHECK-NEXT:    loop.reduce {arith.addf} %k = 0 to 6 : f32 {
func.func @batch(%rows: memref<2x3x4x6xf32>, %columns: memref<2x6x5xf32>, %out: memref<2x3x4x5xf32>) {
  tile.launch (%b = 2 : thread, %y = 3 : thread, %x = 4 : thread, %n = 5 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
      %a = loop.load %rows[%b, %y, %x, %k] : memref<2x3x4x6xf32>
      %v = loop.load %columns[%b, %k, %n] : memref<2x6x5xf32>
      %p = arith.mulf %a, %v : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%b, %y, %x, %n] : memref<2x3x4x5xf32>
  }
  func.return
}
