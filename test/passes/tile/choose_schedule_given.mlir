// RUN: deplodock-opt %s --pass-pipeline='choose-schedule{schedule="tileify,blockify-launch,stage-inputs"}' | filecheck %s --check-prefix SINGLE
// RUN: deplodock-opt %s --pass-pipeline='choose-schedule{schedule="tileify,chunk-matmul-k{bk=32},split-matmul-k{s=4 over=cluster},blockify-launch{m=128 n=128},mark-unroll"}' | filecheck %s

// What a schedule leaves out is filled in as far as it suits: `threads` is for a second launch, which only over=block has,
// and how many CTAs are wanted on an SM follows from all rules together.
// CHECK-LABEL: func.func @linear
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,chunk-matmul-k{bk=32},split-matmul-k{s=4 over=cluster},blockify-launch{m=128 n=128 raster={{[0-9]+}}},mark-unroll"}

// Without register-tile the tile is one of single outputs.
// SINGLE: attributes {deplodock.schedule = "tileify,blockify-launch{m=16 n=16 raster=16},stage-inputs"}
func.func @linear(%x: memref<128x3584xf32>, %w: memref<3584x3584xf32>, %out: memref<128x3584xf32>) {
  loop.for %m = 0 to 128 {
    loop.for %n = 0 to 3584 {
      %acc = loop.reduce {arith.addf} %k = 0 to 3584 : f32 {
        %a = loop.load %x[%m, %k] : memref<128x3584xf32>
        %b = loop.load %w[%n, %k] : memref<3584x3584xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<128x3584xf32>
    }
  }
  func.return
}
