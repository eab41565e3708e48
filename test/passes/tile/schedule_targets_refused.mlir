// RUN: not deplodock-opt %s -p 'choose-schedule{schedule="tileify,blockify-launch(rows){m=8}"},tileify,blockify-launch' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not deplodock-opt %s -p 'choose-schedule{schedule="tileify,blockify-launch(scores){m=8},blockify-launch(out){n=8}"},tileify,blockify-launch' 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not deplodock-opt %s -p 'choose-schedule{schedule="tileify,blockify-launch(out){m=8},blockify-launch(out){n=8}"}' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not deplodock-opt %s -p 'choose-schedule{schedule="tileify(out)"}' 2>&1 | filecheck %s --check-prefix=WHOLE
// RUN: deplodock-opt %s -p 'choose-schedule{schedule="tileify,chunk-matmul-k(scores){bk=8},register-tile(acc){vector=4}"},tileify,chunk-matmul-k,register-tile' 2>&1 >/dev/null | filecheck %s --check-prefix=KIND

// UNKNOWN: no launch is called rows, the target of blockify-launch(rows): @two has acc, out, scores, values
// BOTH: blockify-launch(scores) and blockify-launch(out) are for one launch of @two; take one of them
// TWICE: names blockify-launch(out) twice
// WHOLE: gives tileify the target out; it rewrites kernels as a whole
// KIND: register_tile skipped at @two: vector is for launches without a contraction, and the launch has one; give m, n
func.func @two(%x: memref<16x32xf32>, %w: memref<32x16xf32>, %v: memref<32x24xf32>, %out: memref<16x16xf32>, %values: memref<16x24xf32>) {
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 16 {
      %scores = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x32xf32>
        %b = loop.load %w[%k, %n] : memref<32x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %scores, %out[%m, %n] : memref<16x16xf32>
    }
  }
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 24 {
      %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x32xf32>
        %b = loop.load %v[%k, %n] : memref<32x24xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %values[%m, %n] : memref<16x24xf32>
    }
  }
  func.return
}
