// RUN: deplodock-opt %s -p skip-masked --split-input-file --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p skip-masked --split-input-file | diff - %t.once

// A sum of products ends where the probabilities are 0; what nobody reads is not stored; other folds get it, too.
// CHECK-LABEL: func.func @scores
// CHECK-NEXT:    loop.for %q = 0 to 512 {
// CHECK-NEXT:      loop.for %[[N:.*]] = 0 to 512 {
// CHECK-NEXT:        loop.where %[[N]] < %q floordiv 128 * 128 + 128
// CHECK-NEXT:        loop.load
// CHECK-LABEL: func.func @softmax
// CHECK:         loop.reduce {arith.maximumf} %[[N:.*]] = 0 to 512 : f32 {
// CHECK-NEXT:      loop.where %[[N]] < %q floordiv 128 * 128 + 128
// CHECK:         loop.reduce {arith.addf} %[[N:.*]] = 0 to 512 : f32 {
// CHECK-NEXT:      loop.where %[[N]] < %q floordiv 128 * 128 + 128
// CHECK:         loop.for %[[N:.*]] = 0 to 512 {
// CHECK-NEXT:      loop.where %[[N]] < %q floordiv 128 * 128 + 128
// CHECK-LABEL: func.func @values
// CHECK:         loop.reduce {arith.addf} %[[N:.*]] = 0 to 512 : f32 {
// CHECK-NEXT:      loop.where %[[N]] < %q floordiv 128 * 128 + 128
func.func @main(%x: memref<512x512xf32>, %v: memref<512x2xf32>) -> memref<512x2xf32> {
  %s = memref.alloc() : memref<512x512xf32>
  func.call @scores(%x, %s) : (memref<512x512xf32>, memref<512x512xf32>) -> ()
  %p = memref.alloc() : memref<512x512xf32>
  func.call @softmax(%s, %p) : (memref<512x512xf32>, memref<512x512xf32>) -> ()
  %out = memref.alloc() : memref<512x2xf32>
  func.call @values(%p, %v, %out) : (memref<512x512xf32>, memref<512x2xf32>, memref<512x2xf32>) -> ()
  func.return %out : memref<512x2xf32>
}
func.func @scores(%x: memref<512x512xf32>, %s: memref<512x512xf32>) {
  loop.for %q = 0 to 512 {
    loop.for %n = 0 to 512 {
      %a = loop.load %x[%q, %n] : memref<512x512xf32>
      %y = arith.addf %a, %a : f32
      loop.store %y, %s[%q, %n] : memref<512x512xf32>
    }
  }
  func.return
}
func.func @softmax(%s: memref<512x512xf32>, %p: memref<512x512xf32>) {
  %hidden = arith.constant 0xff800000 : f32
  loop.for %q = 0 to 512 {
    %row = arith.index_cast %q : index to i64
    %max = loop.reduce {arith.maximumf} %n = 0 to 512 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %s[%q, %n] : memref<512x512xf32>
      %y = arith.select %counts, %a, %hidden : f32
      loop.yield %y : f32
    }
    %sum = loop.reduce {arith.addf} %n = 0 to 512 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %s[%q, %n] : memref<512x512xf32>
      %y = arith.select %counts, %a, %hidden : f32
      %z = arith.subf %y, %max : f32
      %e = math.exp %z : f32
      loop.yield %e : f32
    }
    loop.for %n = 0 to 512 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %s[%q, %n] : memref<512x512xf32>
      %y = arith.select %counts, %a, %hidden : f32
      %z = arith.subf %y, %max : f32
      %e = math.exp %z : f32
      %share = arith.divf %e, %sum : f32
      loop.store %share, %p[%q, %n] : memref<512x512xf32>
    }
  }
  func.return
}
func.func @values(%p: memref<512x512xf32>, %v: memref<512x2xf32>, %out: memref<512x2xf32>) {
  loop.for %q = 0 to 512 {
    loop.for %d = 0 to 2 {
      %acc = loop.reduce {arith.addf} %n = 0 to 512 : f32 {
        %a = loop.load %p[%q, %n] : memref<512x512xf32>
        %b = loop.load %v[%n, %d] : memref<512x2xf32>
        %y = arith.mulf %a, %b fastmath<nnan,nsz> : f32
        loop.yield %y : f32
      }
      loop.store %acc, %out[%q, %d] : memref<512x2xf32>
    }
  }
  func.return
}

// -----

// Where 0 * NaN is NaN, nothing is left out.
// CHECK-LABEL: func.func @strict
// CHECK-NOT:     loop.where
// CHECK-LABEL: func.func @lax
// CHECK:         loop.where
// CHECK-LABEL: func.func @reversed
// CHECK-NOT:     loop.where
// CHECK-LABEL: func.func @nothing_left
// CHECK-NOT:     loop.where
// CHECK-LABEL: func.func @fits_one_tile
// CHECK-NOT:     loop.where
// CHECK-LABEL: func.func @wraps_around
// CHECK-NOT:     loop.where
func.func @strict(%p: memref<300x300xf32>, %v: memref<300xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i64
    %acc = loop.reduce {arith.addf} %n = 0 to 300 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %p[%q, %n] : memref<300x300xf32>
      %y = arith.select %counts, %a, %zero : f32
      %b = loop.load %v[%n] : memref<300xf32>
      %z = arith.mulf %y, %b : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}
func.func @lax(%p: memref<300x300xf32>, %v: memref<300xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i64
    %acc = loop.reduce {arith.addf} %n = 0 to 300 : f32 {
      %column = arith.index_cast %n : index to i64
      %hidden = arith.cmpi sgt, %column, %row : i64
      %a = loop.load %p[%q, %n] : memref<300x300xf32>
      %y = arith.select %hidden, %zero, %a : f32
      %b = loop.load %v[%n] : memref<300xf32>
      %z = arith.mulf %y, %b fastmath<nnan,nsz> : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}

// What counts must come first in a row, some of every row must count, and a row must have several tiles.
func.func @reversed(%p: memref<300x300xf32>, %v: memref<300xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i64
    %acc = loop.reduce {arith.addf} %n = 0 to 300 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sge, %column, %row : i64
      %a = loop.load %p[%q, %n] : memref<300x300xf32>
      %y = arith.select %counts, %a, %zero : f32
      %b = loop.load %v[%n] : memref<300xf32>
      %z = arith.mulf %y, %b fastmath<nnan,nsz> : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}
func.func @nothing_left(%p: memref<300x300xf32>, %v: memref<300xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i64
    %acc = loop.reduce {arith.addf} %n = 0 to 300 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi slt, %column, %row : i64
      %a = loop.load %p[%q, %n] : memref<300x300xf32>
      %y = arith.select %counts, %a, %zero : f32
      %b = loop.load %v[%n] : memref<300xf32>
      %z = arith.mulf %y, %b fastmath<nnan,nsz> : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}
func.func @fits_one_tile(%p: memref<300x100xf32>, %v: memref<100xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i64
    %acc = loop.reduce {arith.addf} %n = 0 to 100 : f32 {
      %column = arith.index_cast %n : index to i64
      %counts = arith.cmpi sle, %column, %row : i64
      %a = loop.load %p[%q, %n] : memref<300x100xf32>
      %y = arith.select %counts, %a, %zero : f32
      %b = loop.load %v[%n] : memref<100xf32>
      %z = arith.mulf %y, %b fastmath<nnan,nsz> : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}

// The columns of an i8 start again at -128.
func.func @wraps_around(%p: memref<300x300xf32>, %v: memref<300xf32>, %out: memref<300xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %q = 0 to 300 {
    %row = arith.index_cast %q : index to i8
    %acc = loop.reduce {arith.addf} %n = 0 to 300 : f32 {
      %column = arith.index_cast %n : index to i8
      %counts = arith.cmpi sle, %column, %row : i8
      %a = loop.load %p[%q, %n] : memref<300x300xf32>
      %y = arith.select %counts, %a, %zero : f32
      %b = loop.load %v[%n] : memref<300xf32>
      %z = arith.mulf %y, %b fastmath<nnan,nsz> : f32
      loop.yield %z : f32
    }
    loop.store %acc, %out[%q] : memref<300xf32>
  }
  func.return
}

// -----

// Scores of a streaming reduction that a mask makes -inf are left out, up to multiples of the rows of its tiles.
// CHECK-LABEL: func.func @streamed
// CHECK:         %max, %sum = loop.reduce %n = 0 to 300 : f32, f32 {
// CHECK-NEXT:      loop.where %n < %q floordiv 64 * 64 + 64
func.func @streamed(%x: memref<300x300xf32>, %out: memref<300xf32>) {
  %one = arith.constant 1.0 : f32
  %nothing = arith.constant 0xff800000 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %q = 0 to 300 {
    %qi = arith.index_cast %q : index to i64
    %max, %sum = loop.reduce %n = 0 to 300 : f32, f32 {
      %a = loop.load %x[%q, %n] : memref<300x300xf32>
      %ni = arith.index_cast %n : index to i64
      %seen = arith.cmpi sle, %ni, %qi : i64
      %s = arith.select %seen, %a, %nothing : f32
      loop.yield %s, %one : f32, f32
    } combine (%m0: f32, %l0: f32, %m1: f32, %l1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %a0 = arith.mulf %l0, %w0 : f32
      %a1 = arith.mulf %l1, %w1 : f32
      %l = arith.addf %a0, %a1 : f32
      loop.yield %top, %l : f32, f32
    }
    loop.store %sum, %out[%q] : memref<300xf32>
  }
  func.return
}

// -----

// What such a reduction reads is stored whole: a step of it may be longer than the multiples that its condition has.
// CHECK-LABEL: func.func @values
// CHECK-NEXT:    loop.for %q = 0 to 300 {
// CHECK-NEXT:      loop.for %n = 0 to 300 {
// CHECK-NEXT:        %a = loop.load
// CHECK-LABEL: func.func @streamed_values
// CHECK:         loop.where %n < %q floordiv 64 * 64 + 64
func.func @main(%x: memref<300x300xf32>, %out: memref<300xf32>) {
  %y = memref.alloc() : memref<300x300xf32>
  func.call @values(%x, %y) : (memref<300x300xf32>, memref<300x300xf32>) -> ()
  func.call @streamed_values(%x, %y, %out) : (memref<300x300xf32>, memref<300x300xf32>, memref<300xf32>) -> ()
  func.return
}
func.func @values(%x: memref<300x300xf32>, %y: memref<300x300xf32>) {
  loop.for %q = 0 to 300 {
    loop.for %n = 0 to 300 {
      %a = loop.load %x[%n, %q] : memref<300x300xf32>
      loop.store %a, %y[%q, %n] : memref<300x300xf32>
    }
  }
  func.return
}
func.func @streamed_values(%x: memref<300x300xf32>, %y: memref<300x300xf32>, %out: memref<300xf32>) {
  %nothing = arith.constant 0xff800000 : f32
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  loop.for %q = 0 to 300 {
    %qi = arith.index_cast %q : index to i64
    %max, %sum = loop.reduce %n = 0 to 300 : f32, f32 {
      %a = loop.load %x[%q, %n] : memref<300x300xf32>
      %ni = arith.index_cast %n : index to i64
      %seen = arith.cmpi sle, %ni, %qi : i64
      %s = arith.select %seen, %a, %nothing : f32
      %v = loop.load %y[%q, %n] : memref<300x300xf32>
      loop.yield %s, %v : f32, f32
    } combine (%m0: f32, %l0: f32, %m1: f32, %l1: f32) identity [0xff800000 : f32, 0.0 : f32] {
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %a0 = arith.mulf %l0, %w0 fastmath<nnan,nsz> : f32
      %a1 = arith.mulf %l1, %w1 fastmath<nnan,nsz> : f32
      %l = arith.addf %a0, %a1 : f32
      loop.yield %top, %l : f32, f32
    }
    loop.store %sum, %out[%q] : memref<300xf32>
  }
  func.return
}
