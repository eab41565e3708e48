// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// Neighbours whose pairs are swapped in memory move together, through registers in the order of memory.
// CHECK-LABEL: kernel.func @swapped
// CHECK:           %[[R:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[V:.*]] = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 4 %x[%{{.*}} * 4] to %[[V]][0] : memref<128xf32> to memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      %[[A:.*]] = loop.load %[[V]][1]
// CHECK-NEXT:      loop.store %[[A]], %[[R]][0]
// CHECK-NEXT:      %[[B:.*]] = loop.load %[[V]][0]
// CHECK-NEXT:      loop.store %[[B]], %[[R]][1]
// CHECK-NEXT:      %[[C:.*]] = loop.load %[[V]][3]
// CHECK-NEXT:      loop.store %[[C]], %[[R]][2]
// CHECK-NEXT:      %[[D:.*]] = loop.load %[[V]][2]
// CHECK-NEXT:      loop.store %[[D]], %[[R]][3]
// CHECK:           kernel.move 4 %[[R]][0] to %out[%{{.*}} * 4] : memref<4xf32, #tile.memory<register>> to memref<128xf32>
func.func @swapped(%x: memref<128xf32>, %out: memref<128xf32>) {
  tile.launch (%t = 32 : thread, %r = 4 : register) {
    %n = loop.index [%t * 4 + %r]
    %v = loop.load %x[%n floordiv 2 * 2 - %n mod 2 + 1] : memref<128xf32>
    loop.store %v, %out[%n] : memref<128xf32>
  }
  func.return
}

// -----

// A store likewise, also under a condition that the elements of an access share.
// CHECK-LABEL: kernel.func @stored
// CHECK:         loop.guard where (%{{.*}} * 4 < 100) {
// CHECK:           %[[A:.*]] = loop.load %{{.*}}[0]
// CHECK-NEXT:      loop.store %[[A]], %[[V:.*]][1]
// CHECK:           %[[D:.*]] = loop.load %{{.*}}[3]
// CHECK-NEXT:      loop.store %[[D]], %[[V]][2]
// CHECK-NEXT:      kernel.move 4 %[[V]][0] to %out[%{{.*}} * 4] : memref<4xf32, #tile.memory<register>> to memref<100xf32>
func.func @stored(%x: memref<128xf32>, %out: memref<100xf32>) {
  tile.launch (%t = 32 : thread, %r = 4 : register) {
    %n = loop.index [%t * 4 + %r]
    loop.where %n < 100
    %v = loop.load %x[%n] : memref<128xf32>
    loop.store %v, %out[%n floordiv 2 * 2 - %n mod 2 + 1] : memref<100xf32>
  }
  func.return
}

// -----

// Neighbours that are apart, or a start that is not aligned, move one by one.
// CHECK-LABEL: kernel.func @apart
// CHECK-NOT:     kernel.move {{[24]}} %x
func.func @apart(%x: memref<300xf32>, %out: memref<128xf32>) {
  tile.launch (%t = 32 : thread, %r = 4 : register) {
    %n = loop.index [%t * 4 + %r]
    %v = loop.load %x[%n * 2] : memref<300xf32>
    %w = loop.load %x[%n floordiv 2 * 2 - %n mod 2 + 2] : memref<300xf32>
    %s = arith.addf %v, %w : f32
    loop.store %s, %out[%n] : memref<128xf32>
  }
  func.return
}
