// RUN: deplodock-opt %s -p choose-schedule 2>%t.skips | filecheck %s
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP

// SKIP:      choose_schedule skipped at @chosen: the kernel has a schedule
// SKIP-NEXT: choose_schedule skipped at @launched: the kernel is a launch already

// A contraction gets a tile.
// CHECK-LABEL: func.func @relu_matmul
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,chunk-matmul-k{bk=32},blockify-launch{m=16 n=16{{.*}}},stage-inputs{{.*}},double-buffer{depth=2},async-copy
func.func @relu_matmul(%x: memref<16x64xf32>, %bias: memref<64xf32>, %w: memref<64x16xf32>, %out: memref<16x16xf32>) {
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 16 {
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x64xf32>
        %b = loop.load %bias[%k] : memref<64xf32>
        %s = arith.addf %a, %b : f32
        %c = loop.load %w[%k, %n] : memref<64x16xf32>
        %p = arith.mulf %s, %c : f32
        loop.yield %p : f32
      }
      %zero = arith.constant 0.0 : f32
      %y = arith.maximumf %acc, %zero : f32
      loop.store %y, %out[%m, %n] : memref<16x16xf32>
    }
  }
  func.return
}

// -----

// One chunk of k has no ring; its slabs are copied asynchronously all the same.
// CHECK-LABEL: func.func @short_matmul
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{{.*}},stage-inputs{{.*}},async-copy,pad-smem,mark-unroll"}
func.func @short_matmul(%x: memref<64x27xf32>, %w: memref<27x64xf32>, %out: memref<64x64xf32>) {
  loop.for %m = 0 to 64 {
    loop.for %n = 0 to 64 {
      %acc = loop.reduce {arith.addf} %k = 0 to 27 : f32 {
        %a = loop.load %x[%m, %k] : memref<64x27xf32>
        %b = loop.load %w[%k, %n] : memref<27x64xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<64x64xf32>
    }
  }
  func.return
}

// -----

// A long row gets a CTA, and vectors.
// CHECK-LABEL: func.func @rms_norm
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=256 vector=4},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @rms_norm(%x: memref<1x32x2048xf32>, %w: memref<2048xf32>, %out: memref<1x32x2048xf32>) {
  loop.for %i = 0 to 32 {
    %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
      %v = loop.load %x[0, %i, %k] : memref<1x32x2048xf32>
      %sq = arith.mulf %v, %v : f32
      loop.yield %sq : f32
    }
    %n = arith.constant 2048.0 : f32
    %eps = arith.constant 1.1920929e-07 : f32
    %mean = arith.divf %sum, %n : f32
    %shifted = arith.addf %mean, %eps : f32
    %r = math.rsqrt %shifted : f32
    loop.for %j = 0 to 2048 {
      %v = loop.load %x[0, %i, %j] : memref<1x32x2048xf32>
      %g = loop.load %w[%j] : memref<2048xf32>
      %s = arith.mulf %v, %r : f32
      %y = arith.mulf %s, %g : f32
      loop.store %y, %out[0, %i, %j] : memref<1x32x2048xf32>
    }
  }
  func.return
}

// -----

// So does a row of a flattened view, which walks memory through several subscripts.
// CHECK-LABEL: func.func @flattened
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=256 vector=4},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @flattened(%x: memref<32x4x16x32xf32>, %out: memref<32xf32>) {
  loop.for %i = 0 to 32 {
    %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
      %v = loop.load %x[%i, %k floordiv 512, %k floordiv 32 mod 16, %k mod 32] : memref<32x4x16x32xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<32xf32>
  }
  func.return
}

// -----

// A masked row gets the fewest threads that can hold it.
// CHECK-LABEL: func.func @masked_row
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=64 vector=4},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @masked_row(%x: memref<2048x2048xf32>, %out: memref<2048xf32>) {
  loop.for %i = 0 to 2048 {
    %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
      loop.where %k < %i floordiv 128 * 128 + 128
      %v = loop.load %x[%i, %k] : memref<2048x2048xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%i] : memref<2048xf32>
  }
  func.return
}

// -----

// A row of odd length has no aligned vectors; a warp suffices for it.
// CHECK-LABEL: func.func @odd_row
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=32 vector=1},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @odd_row(%x: memref<6x65xf32>, %out: memref<6xf32>) {
  loop.for %i = 0 to 6 {
    %s = loop.reduce {arith.addf} %k = 0 to 65 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x65xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Columns are summed by rows of threads, so that neighbouring threads walk contiguous memory.
// CHECK-LABEL: func.func @column
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=8 lanes=free},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @column(%x: memref<64x65xf32>, %out: memref<65xf32>) {
  loop.for %i = 0 to 65 {
    %s = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %v = loop.load %x[%k, %i] : memref<64x65xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<65xf32>
  }
  func.return
}

// -----

// Where a thread has more rows than that, it loads some of them at once.
// CHECK-LABEL: func.func @long_column
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=32 lanes=free},blockify-launch{threads=1024},chunk-reduce{size=8},stage-inputs,mark-unroll"}
func.func @long_column(%x: memref<8192x4096xf32>, %out: memref<4096xf32>) {
  loop.for %i = 0 to 4096 {
    %s = loop.reduce {arith.addf} %k = 0 to 8192 : f32 {
      %v = loop.load %x[%k, %i] : memref<8192x4096xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<4096xf32>
  }
  func.return
}

// -----

// A row in which a loop depends on the column has no vectors.
// CHECK-LABEL: func.func @prefix
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=32 vector=1},
func.func @prefix(%x: memref<6x64xf32>, %out: memref<6xf32>) {
  loop.for %i = 0 to 6 {
    %max = loop.reduce {arith.maximumf} %j = 0 to 64 : f32 {
      %sum = loop.reduce {arith.addf} %k = 0 to %j + 1 : f32 {
        %v = loop.load %x[%i, %k] : memref<6x64xf32>
        loop.yield %v : f32
      }
      loop.yield %sum : f32
    }
    loop.store %max, %out[%i] : memref<6xf32>
  }
  func.return
}

// -----

// Elementwise operations on aligned rows get vectors.
// CHECK-LABEL: func.func @negate
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{threads=1024},stage-inputs,register-tile{vector=4}"}
func.func @negate(%x: memref<6x64xf32>, %out: memref<6x64xf32>) {
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : memref<6x64xf32>
      %n = arith.negf %v : f32
      loop.store %n, %out[%i, %j] : memref<6x64xf32>
    }
  }
  func.return
}

// -----

// Rows of odd length are not aligned.
// CHECK-LABEL: func.func @negate_odd
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{threads=256},stage-inputs"}
func.func @negate_odd(%x: memref<6x65xf32>, %out: memref<6x65xf32>) {
  loop.for %i = 0 to 6 {
    loop.for %j = 0 to 65 {
      %v = loop.load %x[%i, %j] : memref<6x65xf32>
      %n = arith.negf %v : f32
      loop.store %n, %out[%i, %j] : memref<6x65xf32>
    }
  }
  func.return
}

// -----

// What a schedule says stays.
// CHECK-LABEL: func.func @chosen
// CHECK-SAME:  attributes {deplodock.schedule = "tileify"}
func.func @chosen(%x: memref<8xf32>) attributes {deplodock.schedule = "tileify"} {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 8 {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}

// -----

// A launch is scheduled.
// CHECK-LABEL: func.func @launched(%x: memref<8xf32>) {
func.func @launched(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 8 : thread) {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}

// -----

// A contraction behind another nest has a tile; the other nest has threads.
// CHECK-LABEL: func.func @both
// CHECK-SAME:  blockify-launch{m=16 n=16 {{.*}}threads=256}
func.func @both(%x: memref<40x8xf32>, %w: memref<8x40xf32>, %y: memref<64xf32>, %out: memref<40x40xf32>) {
  loop.for %i = 0 to 64 {
    %v = loop.load %x[%i mod 40, 0] : memref<40x8xf32>
    loop.store %v, %y[%i] : memref<64xf32>
  }
  loop.for %m = 0 to 40 {
    loop.for %n = 0 to 40 {
      %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
        %a = loop.load %x[%m, %k] : memref<40x8xf32>
        %b = loop.load %w[%k, %n] : memref<8x40xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<40x40xf32>
    }
  }
  func.return
}

// -----

// A thread's share of a row counts in bytes: half precision has half the threads, with the same two accesses each.
// CHECK-LABEL: func.func @halves
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=128 vector=8},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @halves(%x: memref<32x2048xbf16>, %out: memref<32xf32>) {
  loop.for %i = 0 to 32 {
    %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
      %v = loop.load %x[%i, %k] : memref<32x2048xbf16>
      %w = arith.extf %v : bf16 to f32
      loop.yield %w : f32
    }
    loop.store %sum, %out[%i] : memref<32xf32>
  }
  func.return
}

// -----

// A short row leaves no thread of its warp idle for the sake of wider accesses.
// CHECK-LABEL: func.func @heads
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=32 vector=4},blockify-launch{threads=256},stage-inputs,mark-unroll"}
func.func @heads(%x: memref<896x128xf16>, %out: memref<896xf32>) {
  loop.for %i = 0 to 896 {
    %sum = loop.reduce {arith.addf} %k = 0 to 128 : f32 {
      %v = loop.load %x[%i, %k] : memref<896x128xf16>
      %w = arith.extf %v : f16 to f32
      loop.yield %w : f32
    }
    loop.store %sum, %out[%i] : memref<896xf32>
  }
  func.return
}

// -----

// Halves in eights, where those fill the GPU; in fours else, and where the store of floats takes four.
// CHECK-LABEL: func.func @many
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{threads=2048},stage-inputs,register-tile{vector=8}"}
func.func @many(%x: memref<1048576xf16>, %out: memref<1048576xf16>) {
  loop.for %i = 0 to 1048576 {
    %v = loop.load %x[%i] : memref<1048576xf16>
    loop.store %v, %out[%i] : memref<1048576xf16>
  }
  func.return
}
// CHECK-LABEL: func.func @few
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{threads=1024},stage-inputs,register-tile{vector=4}"}
func.func @few(%x: memref<65536xf16>, %out: memref<65536xf16>) {
  loop.for %i = 0 to 65536 {
    %v = loop.load %x[%i] : memref<65536xf16>
    loop.store %v, %out[%i] : memref<65536xf16>
  }
  func.return
}
// CHECK-LABEL: func.func @widened
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,blockify-launch{threads=1024},stage-inputs,register-tile{vector=4}"}
func.func @widened(%x: memref<1048576xf16>, %out: memref<1048576xf32>) {
  loop.for %i = 0 to 1048576 {
    %v = loop.load %x[%i] : memref<1048576xf16>
    %w = arith.extf %v : f16 to f32
    loop.store %w, %out[%i] : memref<1048576xf32>
  }
  func.return
}

// -----

// A row that reads a table again and again still walks memory.
// CHECK-LABEL: func.func @table
// CHECK-SAME:    cooperative-reduce{threads=128 vector=4},
func.func @table(%x: memref<64x1024xf32>, %w: memref<64x32xf32>, %out: memref<64xf32>) {
  loop.for %m = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1024 : f32 {
      %a = loop.load %x[%m, %k] : memref<64x1024xf32>
      %b = loop.load %w[%m, %k mod 32] : memref<64x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %sum, %out[%m] : memref<64xf32>
  }
  func.return
}

// -----

// So does one that reads elements where other ones say.
// CHECK-LABEL: func.func @gathered
// CHECK-SAME:    cooperative-reduce{threads=256 vector=1},
func.func @gathered(%x: memref<64x1024xi64>, %y: memref<64x1024x5000xf32>, %out: memref<64xf32>) {
  loop.for %m = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 1024 : f32 {
      %i = loop.load %x[%m, %k] : memref<64x1024xi64>
      %j = arith.index_cast %i : i64 to index
      %a = loop.load %y[%m, %k, %j] : memref<64x1024x5000xf32>
      loop.yield %a : f32
    }
    loop.store %sum, %out[%m] : memref<64xf32>
  }
  func.return
}

// -----

// A kernel of one row has no other threads than those that share it, wherever its elements lie.
// CHECK-LABEL: func.func @one_row
// CHECK-SAME:    cooperative-reduce{threads=128 vector=1},
func.func @one_row(%x: memref<3072xf32>, %out: memref<f32>) {
  %sum = loop.reduce {arith.addf} %k = 0 to 1024 : f32 {
    %a = loop.load %x[%k * 3] : memref<3072xf32>
    loop.yield %a : f32
  }
  loop.store %sum, %out[] : memref<f32>
  func.return
}

// -----

// Lanes share the sums of several products of few rows, of which a thread computes two.
// CHECK-LABEL: func.func @gates
// CHECK-SAME:  attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=32 vector=4},blockify-launch{m=16 n=2},register-tile{m=4 n=1},mark-unroll"}
func.func @gates(%h: memref<8x128xf32>, %w: memref<64x128xf32>, %v: memref<64x128xf32>, %out: memref<8x64xf32>) {
  loop.for %m = 0 to 8 {
    loop.for %n = 0 to 64 {
      %p, %q = loop.reduce {arith.addf, arith.addf} %k = 0 to 128 : f32, f32 {
        %a = loop.load %h[%m, %k] : memref<8x128xf32>
        %b = loop.load %w[%n, %k] : memref<64x128xf32>
        %c = loop.load %v[%n, %k] : memref<64x128xf32>
        %ab = arith.mulf %a, %b : f32
        %ac = arith.mulf %a, %c : f32
        loop.yield %ab, %ac : f32, f32
      }
      %y = arith.mulf %p, %q : f32
      loop.store %y, %out[%m, %n] : memref<8x64xf32>
    }
  }
  func.return
}
