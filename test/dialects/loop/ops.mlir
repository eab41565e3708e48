// Every form of the loop operations survives custom -> generic -> custom.
// RUN: %roundtrip

// CHECK-LABEL: func.func @for
func.func @for(%q: index, %n: index) {
  // CHECK-NEXT: loop.for %i = 0 to 32 {
  // CHECK-NEXT: }
  loop.for %i = 0 to 32 {
  }
  // CHECK-NEXT: loop.for %j = 0 to %n unroll {
  // CHECK-NEXT: }
  loop.for %j = 0 to %n unroll {}
  // CHECK-NEXT: loop.for %k = 0 to min(%q * 64 + 64, %n, 128) unroll attributes {tag = "kept"} {
  // CHECK-NEXT:   loop.for %l = 0 to %k + 1 {
  // CHECK-NEXT:   }
  // CHECK-NEXT: }
  loop.for %k = 0 to min(%q * 64 + 64, %n, 128) unroll attributes {tag = "kept"} {
    loop.for %l = 0 to %k + 1 {
    }
  }
  // One operand of a minimum is that operand.
  // CHECK-NEXT: loop.for %o = 0 to 0 {
  loop.for %o = 0 to min(0) {
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @reduce
func.func @reduce(%x: memref<1000xf32>, %n: index) {
  // CHECK-NEXT: %sum = loop.reduce {arith.addf} %k = 0 to 1000 : f32 {
  // CHECK-NEXT:   %v = loop.load %x[%k] : memref<1000xf32>
  // CHECK-NEXT:   loop.yield %v : f32
  // CHECK-NEXT: }
  %sum = loop.reduce {arith.addf} %k = 0 to 1000 : f32 {
    %v = loop.load %x[%k] : memref<1000xf32>
    loop.yield %v : f32
  }
  // CHECK-NEXT: %s, %c = loop.reduce {arith.mulf, arith.addi} %l = 0 to min(%n, 1000) unroll : f32, i64 attributes {tag} {
  %s, %c = loop.reduce {arith.mulf, arith.addi} %l = 0 to min(%n, 1000) unroll : f32, i64 attributes {tag} {
    %v = loop.load %x[%l] : memref<1000xf32>
    %one = arith.constant 1 : i64
    // CHECK: loop.yield {last} %{{.*}}, %one : f32, i64
    loop.yield {last} %v, %one : f32, i64
  }
  // A combiner whose yield has attributes is printed in full.
  // CHECK:      } combine (%{{.*}}: f32, %{{.*}}: f32) identity [0.000000e+00 : f32] {
  // CHECK:        loop.yield {kept} %{{.*}} : f32
  %t = loop.reduce %k = 0 to 4 : f32 {
    %v = loop.load %x[%k] : memref<1000xf32>
    loop.yield %v : f32
  } combine (%a: f32, %b: f32) identity [0.0 : f32] {
    %p = arith.addf %a, %b : f32
    loop.yield {kept} %p : f32
  }
  // CHECK:      %m, %e = loop.reduce %o = 0 to 1000 : f32, f32 {
  // CHECK:      } combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.000000e+00 : f32] {
  // CHECK-NEXT:   %max = arith.maximumf %m0, %m1 : f32
  // CHECK-NEXT:   %all = arith.addf %s0, %s1 : f32
  // CHECK-NEXT:   %twice = arith.addf %all, %all : f32
  // CHECK-NEXT:   loop.yield %max, %twice : f32, f32
  // CHECK-NEXT: }
  %m, %e = loop.reduce %o = 0 to 1000 : f32, f32 {
    %v = loop.load %x[%o] : memref<1000xf32>
    loop.yield %v, %v : f32, f32
  } combine (%m0: f32, %s0: f32, %m1: f32, %s1: f32) identity [0xff800000 : f32, 0.0 : f32] {
    %max = arith.maximumf %m0, %m1 : f32
    %all = arith.addf %s0, %s1 : f32
    %twice = arith.addf %all, %all : f32
    loop.yield %max, %twice : f32, f32
  }
  func.return
}

// -----

// The identities that short forms stand for.
// CHECK-LABEL: func.func @identities
func.func @identities(%f: f64, %j: i32, %p: i1) {
  // CHECK-NEXT: loop.reduce {arith.maximumf, arith.minimumf, arith.addf, arith.mulf} %k = 0 to 4 : f64, f64, f64, f64 {
  %0, %1, %2, %3 = loop.reduce %k = 0 to 4 : f64, f64, f64, f64 {
    loop.yield %f, %f, %f, %f : f64, f64, f64, f64
  } combine (%a0: f64, %b0: f64, %c0: f64, %d0: f64, %a1: f64, %b1: f64, %c1: f64, %d1: f64)
    identity [0xfff0000000000000 : f64, 0x7ff0000000000000 : f64, 0.0 : f64, 1.0 : f64] {
    %ar = arith.maximumf %a0, %a1 : f64
    %br = arith.minimumf %b0, %b1 : f64
    %cr = arith.addf %c0, %c1 : f64
    %dr = arith.mulf %d0, %d1 : f64
    loop.yield %ar, %br, %cr, %dr : f64, f64, f64, f64
  }
  // CHECK: loop.reduce {arith.maxsi, arith.minsi, arith.addi, arith.muli} %l = 0 to 4 : i32, i32, i32, i32 {
  %4, %5, %6, %7 = loop.reduce %l = 0 to 4 : i32, i32, i32, i32 {
    loop.yield %j, %j, %j, %j : i32, i32, i32, i32
  } combine (%a0: i32, %b0: i32, %c0: i32, %d0: i32, %a1: i32, %b1: i32, %c1: i32, %d1: i32)
    identity [-2147483648 : i32, 2147483647 : i32, 0 : i32, 1 : i32] {
    %ar = arith.maxsi %a0, %a1 : i32
    %br = arith.minsi %b0, %b1 : i32
    %cr = arith.addi %c0, %c1 : i32
    %dr = arith.muli %d0, %d1 : i32
    loop.yield %ar, %br, %cr, %dr : i32, i32, i32, i32
  }
  // CHECK: loop.reduce {arith.andi, arith.ori, arith.xori} %o = 0 to 4 : i1, i1, i1 {
  %8, %9, %10 = loop.reduce %o = 0 to 4 : i1, i1, i1 {
    loop.yield %p, %p, %p : i1, i1, i1
  } combine (%a0: i1, %b0: i1, %c0: i1, %a1: i1, %b1: i1, %c1: i1) identity [true, false, false] {
    %ar = arith.andi %a0, %a1 : i1
    %br = arith.ori %b0, %b1 : i1
    %cr = arith.xori %c0, %c1 : i1
    loop.yield %ar, %br, %cr : i1, i1, i1
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @index
func.func @index(%a: index, %b: index, %c: index) {
  // CHECK-NEXT: %sum = loop.index [%a + %b + 1] {tag = "kept"}
  %sum = loop.index [%a + %b + 1] {tag = "kept"}
  // CHECK-NEXT: %product = loop.index [%a * 128 + %b * 4]
  %product = loop.index [128 * %a + %b * 4]
  // CHECK-NEXT: %difference = loop.index [%a - %b * 3 - 7]
  %difference = loop.index [%a - %b * 3 - 7]
  // CHECK-NEXT: %negative = loop.index [%a * -1 - %b * 2]
  %negative = loop.index [-%a + %b * -2]
  // CHECK-NEXT: %less = loop.index [%a - %b - %c * 2 + 5]
  %less = loop.index [%a - (%b + 2 * %c - 5)]
  // CHECK-NEXT: %left = loop.index [%a - %b + %c]
  %left = loop.index [%a - %b + %c]
  // CHECK-NEXT: %lane = loop.index [%a * 32 + %b floordiv 4 mod 8]
  %lane = loop.index [%a * 32 + %b floordiv 4 mod 8]
  // CHECK-NEXT: %ceil = loop.index [(%a + 63) ceildiv 64 * 64]
  %ceil = loop.index [(%a + 63) ceildiv 64 * 64]
  // A sum in parentheses prints as what it reads as without them.
  // CHECK-NEXT: %offset = loop.index [%a + %b - 7]
  %offset = loop.index [%a + (%b - 8 + 1)]
  // CHECK-NEXT: %div = loop.index [(%a * 4 + %b) floordiv 8]
  %div = loop.index [(%a * 4 + %b) floordiv 8]
  // CHECK-NEXT: %tight = loop.index [%a * 4 floordiv 8]
  %tight = loop.index [%a * 4 floordiv 8]
  // CHECK-NEXT: %grouped = loop.index [%a floordiv 8 * 4]
  %grouped = loop.index [4 * (%a floordiv 8)]
  // CHECK-NEXT: %nested = loop.index [%a + (%b + %c) mod 3]
  %nested = loop.index [%a + ((%b + %c) mod 3)]
  // CHECK-NEXT: %right = loop.index [%a + %b + %c]
  %right = loop.index [%a + (%b + %c)]
  // CHECK-NEXT: %twice = loop.index [%a + %a]
  %twice = loop.index [%a + %a]
  // CHECK-NEXT: %constant = loop.index [-3]
  %constant = loop.index [-3]
  // CHECK-NEXT: %plus = loop.index [%a + 2]
  %plus = loop.index [2 + %a]
  func.return
}

// -----

// CHECK-LABEL: func.func @points
func.func @points(%n: index) {
  loop.for %i = 0 to 512 {
    // CHECK:      loop.where %i < 500
    loop.where %i < 500
    // CHECK-NEXT: loop.where %i * 2 + 1 < %n - 3 {tag = "kept"}
    loop.where %i * 2 + 1 < %n - 3 {tag = "kept"}
    // CHECK-NEXT: %in = loop.inside where (%i + 2 < %n, 4 < %i) {tag = "kept"}
    %in = loop.inside where (%i + 2 < %n, 4 < %i) {tag = "kept"}
    // CHECK-NEXT: %one = loop.inside where (-1 < %i)
    %one = loop.inside where (-1 < %i)
    // CHECK-NEXT: loop.guard where (%i < 500) {
    // CHECK-NEXT: }
    loop.guard where (%i < 500) {
    }
    // CHECK-NEXT: loop.guard where (%i mod 4 < 1, %i < %n) attributes {tag = "kept"} {
    // CHECK-NEXT:   %inner = loop.index [%i]
    // CHECK-NEXT: }
    loop.guard where (%i mod 4 < 1, %i < %n) attributes {tag = "kept"} {
      %inner = loop.index [%i]
    }
  }
  func.return
}

// -----

// CHECK-LABEL: func.func @memory
func.func @memory(%x: memref<32x2048xf32>, %ids: memref<32xi64>, %out: memref<32xf32>, %s: memref<f32>, %d: memref<?x4xf32>) {
  loop.for %i = 0 to 32 {
    // CHECK:      %id = loop.load %ids[%i] : memref<32xi64>
    %id = loop.load %ids[%i] : memref<32xi64>
    %k = arith.index_cast %id : i64 to index
    // CHECK:      %v = loop.load %x[%i, %k + 1] {tag = "kept"} : memref<32x2048xf32>
    %v = loop.load %x[%i, %k + 1] {tag = "kept"} : memref<32x2048xf32>
    // CHECK-NEXT: loop.store %v, %out[%i] : memref<32xf32>
    loop.store %v, %out[%i] : memref<32xf32>
    // CHECK-NEXT: %scalar = loop.load %s[] : memref<f32>
    %scalar = loop.load %s[] : memref<f32>
    // CHECK-NEXT: loop.store %scalar, %s[] {tag = "kept"} : memref<f32>
    loop.store %scalar, %s[] {tag = "kept"} : memref<f32>
    // CHECK-NEXT: %dynamic = loop.load %d[%i, 3] : memref<?x4xf32>
    %dynamic = loop.load %d[%i, 3] : memref<?x4xf32>
  }
  func.return
}

// -----

// Operands that a map uses twice, or not at all, read from generic text.
// CHECK-LABEL: func.func @generic
func.func @generic(%a: index, %b: index) {
  // CHECK-NEXT: %0 = loop.index [%a + %a]
  %0 = "loop.index"(%a, %a, %b) <{map = affine_map<(d0, d1, d2) -> (d0 + d1)>}> : (index, index, index) -> index
  // CHECK-NEXT: loop.for %i = 0 to min(%b, %a) unroll {
  "loop.for"(%a, %b) <{bound = affine_map<(d0, d1) -> (d1, d0)>, unroll}> ({
  ^bb0(%i: index):
  }) : (index, index) -> ()
  func.return
}

// CHECK-LABEL: func.func @scan
func.func @scan(%x: memref<4x8xf32>, %n: memref<8xi64>) {
  loop.for %i = 0 to 4 {
    loop.for %k = 0 to 8 {
      // CHECK: %v = loop.load
      %v = loop.load %x[%i, %k] : memref<4x8xf32>
      // CHECK-NEXT: %s = loop.scan {arith.addf} %v along (%k) : f32
      %s = loop.scan {arith.addf} %v along (%k) : f32
      // CHECK-NEXT: %b = loop.scan {arith.mulf} %s along (%i, %k) exclusive {tag} : f32
      %b = loop.scan {arith.mulf} %s along (%i, %k) exclusive {tag} : f32
      // CHECK-NEXT: %w = loop.load
      %w = loop.load %n[%k] : memref<8xi64>
      // CHECK-NEXT: %p, %q = loop.scan %v, %w along (%k) : f32, i64 combine (%a: f32, %c: i64, %d: f32, %e: i64) identity [0.{{0*e.00|0}} : f32, 0 : i64] {
      // CHECK-NEXT:   loop.yield %d, %e : f32, i64
      %p, %q = loop.scan %v, %w along (%k) : f32, i64 combine (%a: f32, %c: i64, %d: f32, %e: i64) identity [0.0 : f32, 0 : i64] {
        loop.yield %d, %e : f32, i64
      }
    }
  }
  func.return
}
