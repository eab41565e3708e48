// RUN: deplodock-opt %s -p fold-copies --split-input-file --check-semantics -o %t.once && filecheck %s --input-file %t.once
// RUN: deplodock-opt %t.once -p fold-copies --split-input-file | diff - %t.once

// Heads lie side by side in the result: a transposition and a reshape of what the kernel has.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %b = memref.alloc() : memref<3x32xf32>
// CHECK-NEXT:    func.call @k(%x, %b)
// CHECK-NEXT:    func.return %b
// CHECK-LABEL: func.func @k(%x: memref<4x3x8xf32>, %out: memref<3x32xf32>)
// CHECK:         loop.store %w, %out[%s, %h * 8 + %d] : memref<3x32xf32>
// CHECK-NOT:   @k_copy
func.func @main(%x: memref<4x3x8xf32>) -> memref<3x32xf32> {
  %a = memref.alloc() : memref<4x3x8xf32>
  func.call @k(%x, %a) : (memref<4x3x8xf32>, memref<4x3x8xf32>) -> ()
  %b = memref.alloc() : memref<3x32xf32>
  func.call @k_copy(%a, %b) : (memref<4x3x8xf32>, memref<3x32xf32>) -> ()
  func.return %b : memref<3x32xf32>
}
func.func @k(%x: memref<4x3x8xf32>, %out: memref<4x3x8xf32>) {
  loop.for %h = 0 to 4 {
    loop.for %s = 0 to 3 {
      loop.for %d = 0 to 8 {
        %v = loop.load %x[%h, %s, %d] : memref<4x3x8xf32>
        %w = arith.mulf %v, %v : f32
        loop.store %w, %out[%h, %s, %d] : memref<4x3x8xf32>
      }
    }
  }
  func.return
}
func.func @k_copy(%x: memref<4x3x8xf32>, %out: memref<3x32xf32>) {
  loop.for %s = 0 to 3 {
    loop.for %n = 0 to 32 {
      %v = loop.load %x[%n floordiv 8, %s, %n mod 8] : memref<4x3x8xf32>
      loop.store %v, %out[%s, %n] : memref<3x32xf32>
    }
  }
  func.return
}

// -----

// A matrix that is transposed would be stored an element here and there; a program returns what a kernel stores; one
// more kernel reads it: the copies stay.
// CHECK-LABEL: func.func @main
// CHECK:         func.call @k(%x, %a)
// CHECK:         func.call @k_transpose(%a, %b)
// CHECK:         func.call @k_1(%x, %c)
// CHECK:         func.call @k_flat(%c, %d)
// CHECK:         func.call @k_2(%x, %e)
// CHECK:         func.call @k_flat(%e, %f)
// CHECK:         func.call @k_3(%e, %g)
func.func @main(%x: memref<16x8xf32>) -> (memref<8x16xf32>, memref<16x8xf32>, memref<128xf32>, memref<128xf32>, memref<16x8xf32>) {
  %a = memref.alloc() : memref<16x8xf32>
  func.call @k(%x, %a) : (memref<16x8xf32>, memref<16x8xf32>) -> ()
  %b = memref.alloc() : memref<8x16xf32>
  func.call @k_transpose(%a, %b) : (memref<16x8xf32>, memref<8x16xf32>) -> ()
  %c = memref.alloc() : memref<16x8xf32>
  func.call @k_1(%x, %c) : (memref<16x8xf32>, memref<16x8xf32>) -> ()
  %d = memref.alloc() : memref<128xf32>
  func.call @k_flat(%c, %d) : (memref<16x8xf32>, memref<128xf32>) -> ()
  %e = memref.alloc() : memref<16x8xf32>
  func.call @k_2(%x, %e) : (memref<16x8xf32>, memref<16x8xf32>) -> ()
  %f = memref.alloc() : memref<128xf32>
  func.call @k_flat(%e, %f) : (memref<16x8xf32>, memref<128xf32>) -> ()
  %g = memref.alloc() : memref<16x8xf32>
  func.call @k_3(%e, %g) : (memref<16x8xf32>, memref<16x8xf32>) -> ()
  func.return %b, %c, %d, %f, %g : memref<8x16xf32>, memref<16x8xf32>, memref<128xf32>, memref<128xf32>, memref<16x8xf32>
}
func.func @k(%x: memref<16x8xf32>, %out: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : memref<16x8xf32>
      %w = arith.mulf %v, %v : f32
      loop.store %w, %out[%i, %j] : memref<16x8xf32>
    }
  }
  func.return
}
func.func @k_1(%x: memref<16x8xf32>, %out: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : memref<16x8xf32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %out[%i, %j] : memref<16x8xf32>
    }
  }
  func.return
}
func.func @k_2(%x: memref<16x8xf32>, %out: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : memref<16x8xf32>
      %w = arith.negf %v : f32
      loop.store %w, %out[%i, %j] : memref<16x8xf32>
    }
  }
  func.return
}
func.func @k_3(%x: memref<16x8xf32>, %out: memref<16x8xf32>) {
  loop.for %i = 0 to 16 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : memref<16x8xf32>
      %w = arith.addf %v, %v : f32
      loop.store %w, %out[%i, %j] : memref<16x8xf32>
    }
  }
  func.return
}
func.func @k_transpose(%x: memref<16x8xf32>, %out: memref<8x16xf32>) {
  loop.for %j = 0 to 8 {
    loop.for %i = 0 to 16 {
      %v = loop.load %x[%i, %j] : memref<16x8xf32>
      loop.store %v, %out[%j, %i] : memref<8x16xf32>
    }
  }
  func.return
}
func.func @k_flat(%x: memref<16x8xf32>, %out: memref<128xf32>) {
  loop.for %n = 0 to 128 {
    %v = loop.load %x[%n floordiv 8, %n mod 8] : memref<16x8xf32>
    loop.store %v, %out[%n] : memref<128xf32>
  }
  func.return
}

// -----

// The parts of a concat are stored in their places; what else its kernel does, it still does.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %c = memref.alloc() : memref<4x40xf32>
// CHECK-NEXT:    func.call @k_1(%x, %c)
// CHECK-NEXT:    func.call @k(%x, %c)
// CHECK-NEXT:    func.call @k_cat(%c)
// CHECK-LABEL: func.func @k(%x: memref<4x16xf32>, %out: memref<4x40xf32>)
// CHECK:         loop.store %w, %out[%i, %j + 24]
// CHECK-LABEL: func.func @k_1(%x: memref<4x16xf32>, %out: memref<4x40xf32>)
// CHECK:         loop.store %w, %out[%i, %j + 8]
// CHECK-LABEL: func.func @k_cat(%out: memref<4x40xf32>)
// CHECK:         loop.for %i = 0 to 4 {
// CHECK-NEXT:      loop.for %j = 0 to 8 {
// CHECK-NOT:     loop.load
func.func @main(%x: memref<4x16xf32>) -> memref<4x40xf32> {
  %a = memref.alloc() : memref<4x16xf32>
  func.call @k(%x, %a) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  %b = memref.alloc() : memref<4x16xf32>
  func.call @k(%x, %b) : (memref<4x16xf32>, memref<4x16xf32>) -> ()
  %c = memref.alloc() : memref<4x40xf32>
  func.call @k_cat(%a, %b, %c) : (memref<4x16xf32>, memref<4x16xf32>, memref<4x40xf32>) -> ()
  func.return %c : memref<4x40xf32>
}
func.func @k(%x: memref<4x16xf32>, %out: memref<4x16xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %x[%i, %j] : memref<4x16xf32>
      %w = arith.mulf %v, %v : f32
      loop.store %w, %out[%i, %j] : memref<4x16xf32>
    }
  }
  func.return
}
func.func @k_cat(%a: memref<4x16xf32>, %b: memref<4x16xf32>, %out: memref<4x40xf32>) {
  %0 = arith.constant 0.000000e+00 : f32
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      loop.store %0, %out[%i, %j] : memref<4x40xf32>
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %a[%i, %j] : memref<4x16xf32>
      loop.store %v, %out[%i, %j + 8] : memref<4x40xf32>
    }
  }
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 16 {
      %v = loop.load %b[%i, %j] : memref<4x16xf32>
      loop.store %v, %out[%i, %j + 24] : memref<4x40xf32>
    }
  }
  func.return
}
