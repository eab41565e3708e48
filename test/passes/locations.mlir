// What passes make has locations, which print and read back as they were.
// RUN: deplodock-opt %s -p lower-to-loops,tileify --print-debuginfo -o %t.mlir
// RUN: deplodock-opt %t.mlir --print-debuginfo | diff - %t.mlir
// RUN: filecheck %s --input-file=%t.mlir

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = tensor_ext.kernel @k(%y = %x : tensor<8xf32>) -> tensor<8xf32> {
    %e = tensor_ext.elementwise {math.exp} %y : tensor<8xf32>
    tensor_ext.yield %e : tensor<8xf32>
  }
  func.return %r : tensor<8xf32>
}

// CHECK: memref.alloc() : memref<8xf32> loc("{{.*}}locations.mlir":7:3)
// CHECK: func.call @k({{.*}} loc("{{.*}}locations.mlir":7:3)
// CHECK: loop.load {{.*}} loc("{{.*}}locations.mlir":8:{{[0-9]+}})
// CHECK: math.exp {{.*}} loc("{{.*}}locations.mlir":8:{{[0-9]+}})
// CHECK: loop.store {{.*}} loc("{{.*}}locations.mlir":8:{{[0-9]+}})
