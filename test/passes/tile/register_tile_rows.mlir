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
