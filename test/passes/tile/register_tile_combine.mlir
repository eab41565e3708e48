// RUN: not deplodock-opt %s -p 'register-tile{vector=4}' 2>&1 | filecheck %s

// The axis along which the store is contiguous is folded by a combine, which needs all its threads.
// CHECK: applies to no kernel: @rows: no thread axis walks contiguous memory in every store
func.func @rows(%x: memref<4x64xf32>, %out: memref<4x64xf32>) {
  tile.launch (%i = 4 : block, %t = 64 : thread) {
    %v = loop.load %x[%i, %t] : memref<4x64xf32>
    %sum = tile.combine {arith.addf} %v over (%t) : f32
    %y = arith.mulf %v, %sum : f32
    loop.store %y, %out[%i, %t] : memref<4x64xf32>
  }
  func.return
}
