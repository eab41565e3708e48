// RUN: deplodock-opt %s -p stream-tile --split-input-file --verify-diagnostics

// expected-remark@+1 {{the launch has lane axes already}}
func.func @lanes(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread, %u = 8 : lane %t) {
    %a = loop.load %x[%u] : memref<8xf32>
    %max = tile.combine {arith.maximumf} %a over (%u) : f32
    loop.store %max, %out[%t] : memref<8xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{the launch has no streaming reduction of products}}
func.func @sum(%x: memref<8x64xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %sum = loop.reduce {arith.addf} %i = 0 to 64 : f32 {
      %a = loop.load %x[%m, %i] : memref<8x64xf32>
      loop.yield %a : f32
    }
    loop.store %sum, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{its points are divided already; stream-tile runs behind tileify}}
func.func @blocks(%q: memref<8x4xf32>, %k: memref<16x4xf32>, %v: memref<16x4xf32>, %out: memref<8x4xf32>) {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : block, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x4xf32>
        %b = loop.load %k[%i, %e] : memref<16x4xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x4xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{the extent of %m is not constant}}
func.func @extents(%q: memref<8x4xf32>, %k: memref<16x4xf32>, %v: memref<16x4xf32>, %out: memref<8x4xf32>, %rows: index) {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = %rows : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x4xf32>
        %b = loop.load %k[%i, %e] : memref<16x4xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x4xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{its tile takes 538624 bytes of shared memory, above the 232448 of a CTA; give m or n}}
func.func @wide(%q: memref<8x1024xf32>, %k: memref<16x1024xf32>, %v: memref<16x1024xf32>, %out: memref<8x1024xf32>) {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 1024 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 1024 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x1024xf32>
        %b = loop.load %k[%i, %e] : memref<16x1024xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x1024xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x1024xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{mma reads f32 as TF32, which the precision of the product does not allow}}
func.func @engine(%q: memref<8x4xf32>, %k: memref<16x4xf32>, %v: memref<16x4xf32>, %out: memref<8x4xf32>) attributes {deplodock.schedule = "stream-tile{engine=mma}"} {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x4xf32>
        %b = loop.load %k[%i, %e] : memref<16x4xf32>
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x4xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{mma takes products of one precision, not high and highest}}
func.func @one_precision(%q: memref<8x4xf32>, %k: memref<16x4xf32>, %v: memref<16x4xf32>, %out: memref<8x4xf32>) attributes {deplodock.schedule = "stream-tile{engine=mma}"} {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %a = loop.load %q[%m, %e] : memref<8x4xf32>
        %b = loop.load %k[%i, %e] : memref<16x4xf32>
        %ab = arith.mulf %a, %b {deplodock.precision = "high"} : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x4xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{the exponentials are not fastmath<afn>, so weights may not be rounded to bf16}}
func.func @exact(%q: memref<8x4xbf16>, %k: memref<16x4xbf16>, %v: memref<16x4xbf16>, %out: memref<8x4xf32>) attributes {deplodock.schedule = "stream-tile{engine=mma}"} {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %an = loop.load %q[%m, %e] : memref<8x4xbf16>
        %a = arith.extf %an : bf16 to f32
        %bn = loop.load %k[%i, %e] : memref<16x4xbf16>
        %b = arith.extf %bn : bf16 to f32
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %cn = loop.load %v[%i, %d] : memref<16x4xbf16>
      %c = arith.extf %cn : bf16 to f32
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{the 16 rows of a CTA are no multiple of the 32 of a warp}}
func.func @rows(%q: memref<8x4xbf16>, %k: memref<16x4xbf16>, %v: memref<16x4xbf16>, %out: memref<8x4xf32>) attributes {deplodock.schedule = "stream-tile{m=16 warp=32 engine=mma}"} {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %an = loop.load %q[%m, %e] : memref<8x4xbf16>
        %a = arith.extf %an : bf16 to f32
        %bn = loop.load %k[%i, %e] : memref<16x4xbf16>
        %b = arith.extf %bn : bf16 to f32
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %cn = loop.load %v[%i, %d] : memref<16x4xbf16>
      %c = arith.extf %cn : bf16 to f32
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 fastmath<afn> : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 fastmath<afn> : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}

// -----

// expected-remark@+1 {{mma does not multiply weights by f32}}
func.func @values(%q: memref<8x4xbf16>, %k: memref<16x4xbf16>, %v: memref<16x4xf32>, %out: memref<8x4xf32>) attributes {deplodock.schedule = "stream-tile{engine=mma}"} {
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = 8 : thread, %d = 4 : thread) {
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {
      %s = loop.reduce {arith.addf} %e = 0 to 4 : f32 {
        %an = loop.load %q[%m, %e] : memref<8x4xbf16>
        %a = arith.extf %an : bf16 to f32
        %bn = loop.load %k[%i, %e] : memref<16x4xbf16>
        %b = arith.extf %bn : bf16 to f32
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }
      %c = loop.load %v[%i, %d] : memref<16x4xf32>
      loop.yield %s, %c : f32, f32
    } combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 fastmath<afn> : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 fastmath<afn> : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }
    loop.store %o, %out[%m, %d] : memref<8x4xf32>
  }
  func.return
}
