// RUN: deplodock-opt %s -p coalesce-loops,canonicalize,cse --split-input-file --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p coalesce-loops,canonicalize,cse --split-input-file | diff - %t.once
// RUN: deplodock-opt %s -p coalesce-loops,choose-schedule --split-input-file | filecheck %s --check-prefix SHARED

// A result has in three dimensions what the reduction of a row sees in one. All threads share the one loop.
// CHECK-LABEL: func.func @pixels
// CHECK:         loop.reduce {arith.addf}
// CHECK:         loop.for %[[I:.*]] = 0 to 4096 {
// CHECK-NEXT:      %[[A:.*]] = loop.index [%[[I]] floordiv 1024]
// CHECK-NEXT:      %[[B:.*]] = loop.index [%[[I]] floordiv 32 mod 32]
// CHECK-NEXT:      %[[C:.*]] = loop.index [%[[I]] mod 32]
// CHECK:           loop.store %{{.*}}, %out[%{{.*}}, %[[A]], %[[B]], %[[C]]]
// CHECK-NOT:       loop.for
// SHARED: cooperative-reduce{threads=256 vector=4}
func.func @pixels(%x: memref<8x4096xf32>, %out: memref<8x4x32x32xf32>) {
  loop.for %m = 0 to 8 {
    %sum = loop.reduce {arith.addf} %k = 0 to 4096 : f32 {
      %v = loop.load %x[%m, %k] : memref<8x4096xf32>
      loop.yield %v : f32
    }
    loop.for %a = 0 to 4 {
      loop.for %b = 0 to 32 {
        loop.for %c = 0 to 32 {
          %v_1 = loop.load %x[%m, %a * 1024 + %b * 32 + %c] : memref<8x4096xf32>
          %w = arith.divf %v_1, %sum : f32
          loop.store %w, %out[%m, %a, %b, %c] : memref<8x4x32x32xf32>
        }
      }
    }
  }
  func.return
}

// -----

// The reduction runs through the row in several loops as well: both stay.
// CHECK-LABEL: func.func @several
// CHECK:         loop.for %{{.*}} = 0 to 4 {
// CHECK-NEXT:      loop.for %{{.*}} = 0 to 8 {
func.func @several(%x: memref<8x4x8xf32>, %out: memref<8x4x8xf32>) {
  loop.for %m = 0 to 8 {
    %sum = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %part = loop.reduce {arith.addf} %l = 0 to 8 : f32 {
        %v = loop.load %x[%m, %k, %l] : memref<8x4x8xf32>
        loop.yield %v : f32
      }
      loop.yield %part : f32
    }
    loop.for %a = 0 to 4 {
      loop.for %b = 0 to 8 {
        %v_1 = loop.load %x[%m, %a, %b] : memref<8x4x8xf32>
        %w = arith.divf %v_1, %sum : f32
        loop.store %w, %out[%m, %a, %b] : memref<8x4x8xf32>
      }
    }
  }
  func.return
}
