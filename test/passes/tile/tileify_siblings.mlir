// RUN: deplodock-opt %s -p tileify --split-input-file | filecheck %s

// Loops of one extent that write side by side are computed at one axis.
// CHECK-LABEL: func.func @alike
// CHECK-NEXT:    tile.launch (%i = 5 : thread, %j = 6 : thread) {
// CHECK-NEXT:      %[[S:.*]] = loop.load %x[%i, 0]
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%i, %j]
// CHECK-NEXT:      loop.store %[[A]], %y[%i, %j]
// CHECK-NEXT:      loop.store %[[S]], %z[%i, %j]
func.func @alike(%x: memref<5x6xf32>, %y: memref<5x6xf32>, %z: memref<5x6xf32>) {
  loop.for %i = 0 to 5 {
    %s = loop.load %x[%i, 0] : memref<5x6xf32>
    loop.for %j = 0 to 6 {
      %a = loop.load %x[%i, %j] : memref<5x6xf32>
      loop.store %a, %y[%i, %j] : memref<5x6xf32>
    }
    loop.for %j = 0 to 6 {
      loop.store %s, %z[%i, %j] : memref<5x6xf32>
    }
  }
  func.return
}

// -----

// What one of them leaves out must not leave out the other.
// CHECK-LABEL: func.func @activity
// CHECK-NEXT:    tile.launch (%i = 5 : thread) {
// CHECK-NEXT:      loop.for %j = 0 to 6 {
// CHECK-NEXT:        loop.where %i + %j < 6
func.func @activity(%x: memref<5x6xf32>, %y: memref<5x6xf32>, %z: memref<5x6xf32>) {
  loop.for %i = 0 to 5 {
    loop.for %j = 0 to 6 {
      loop.where %i + %j < 6
      %a = loop.load %x[%i, %j] : memref<5x6xf32>
      loop.store %a, %y[%i, %j] : memref<5x6xf32>
    }
    loop.for %j = 0 to 6 {
      %a = loop.load %x[%i, %j] : memref<5x6xf32>
      loop.store %a, %z[%i, %j] : memref<5x6xf32>
    }
  }
  func.return
}
