// RUN: deplodock compile %s --target rtx5090 --ir tile | filecheck %s
// RUN: deplodock compile %s --target rtx5090 | filecheck %s --check-prefix=CUDA

// Rows are read in the order of windows, so that a thread has the 2 of the innermost axis alone: a tile takes 896
// threads, of which the GPU has room for one CTA on an SM.
// CHECK: blockify-launch{m=128 n=128 occupancy=1 raster=16}
// CUDA: __launch_bounds__(896, 1)
func.func @windows(%x: memref<64x784x1024xf32>, %w: memref<256x1024xf32>, %out: memref<64x14x14x2x2x256xf32>) {
  loop.for %b = 0 to 64 {
    loop.for %i = 0 to 14 {
      loop.for %j = 0 to 14 {
        loop.for %u = 0 to 2 {
          loop.for %v = 0 to 2 {
            loop.for %n = 0 to 256 {
              %acc = loop.reduce {arith.addf} %k = 0 to 1024 : f32 {
                %l = loop.load %x[%b, %i * 56 + %v * 28 + %j * 2 + %u, %k] : memref<64x784x1024xf32>
                %r = loop.load %w[%n, %k] : memref<256x1024xf32>
                %p = arith.mulf %l, %r : f32
                loop.yield %p : f32
              }
              loop.store %acc, %out[%b, %i, %j, %u, %v, %n] : memref<64x14x14x2x2x256xf32>
            }
          }
        }
      }
    }
  }
  func.return
}
