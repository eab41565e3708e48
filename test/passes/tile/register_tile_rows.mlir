// RUN: deplodock-opt %s -p 'register-tile{vector=2 rows=4}' --check-semantics | filecheck %s

// Neighbours along an axis whose windows overlap belong to one thread, too; the windows of channels do not.
// CHECK:      tile.launch (%k = 2 : thread, %y_t = 2 : thread, %c_t = 3 : thread, %y_r = 4 : register, %c_r = 2 : register) {
// CHECK-NEXT:   %[[C:.*]] = loop.index [%c_t * 2 + %c_r]
// CHECK-NEXT:   %[[Y:.*]] = loop.index [%y_t * 4 + %y_r]
// CHECK-NEXT:   loop.where %[[Y]] < 5
// CHECK:          loop.load %x[%k, %[[Y]] + %h, %[[C]]] : memref<2x7x6xf32>
func.func @image(%x: memref<2x7x6xf32>, %out: memref<2x5x6xf32>) {
  tile.launch (%k = 2 : thread, %y = 5 : thread, %c = 6 : thread) {
    %acc = loop.reduce {arith.addf} %h = 0 to 3 : f32 {
      %v = loop.load %x[%k, %y + %h, %c] : memref<2x7x6xf32>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%k, %y, %c] : memref<2x5x6xf32>
  }
  func.return
}

// Threads that share a row reach as far as the steps of its loop; they stay threads of the row.
// CHECK-LABEL: func.func @row
// CHECK:      tile.launch (%t = 32 : thread, %m = 2 : register) {
func.func @row(%x: memref<2x64xf32>, %out: memref<2xf32>) {
  tile.launch (%m = 2 : thread, %t = 32 : thread) {
    %acc = loop.reduce {arith.addf} %i = 0 to 2 : f32 {
      %v = loop.load %x[%m, %i * 32 + %t] : memref<2x64xf32>
      loop.yield %v : f32
    }
    %acc_1 = tile.combine {arith.addf} %acc over (%t) : f32
    loop.store %acc_1, %out[%m] : memref<2xf32>
  }
  func.return
}
