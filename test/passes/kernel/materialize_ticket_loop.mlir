// RUN: not deplodock-opt %s -p materialize 2>&1 | filecheck %s

// CHECK: tile.combine: a combine over block axes stands in a loop; it must stand in the launch itself
func.func @in_a_loop(%x: memref<8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%s = 4 : block, %t = 8 : thread) {
    loop.for %i = 0 to 4 {
      %v = loop.load %x[%s, %t + %i * 8] : memref<8x32xf32>
      %p = tile.combine {arith.addf} %v over (%s) : f32
      loop.store %p, %out[0, %t + %i * 8] : memref<8x32xf32>
    }
  }
  func.return
}
