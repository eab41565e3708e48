// RUN: deplodock-opt %s --split-input-file --parsing-diagnostics | filecheck %s

// CHECK: invalid.mlir:4:27
%0 = arith.constant dense<0xff> : tensor<2xf32>
// CHECK: 0xff has 2 hexadecimal digits; as the bits of a number of type f32 it has 8

// -----

%0 = arith.constant 0xff : f32
// CHECK: 0xff has 2 hexadecimal digits; as the bits of a number of type f32 it has 8

// -----

%0 = arith.constant dense<[0x7f80, 0x7f800000]> : tensor<2xbf16>
// CHECK: 0x7f800000 has 8 hexadecimal digits; as the bits of a number of type bf16 it has 4

// -----

"test.op"() {a = array<f64: 0xff800000>} : () -> ()
// CHECK: 0xff800000 has 8 hexadecimal digits; as the bits of a number of type f64 it has 16

// -----

%0 = arith.constant dense<-0xff800000> : tensor<2xf32>
// CHECK: -0xff800000: the bits of a float have no sign before them, their first one is the sign

// -----

%0 = arith.constant dense<[1.0, 7.0e4]> : tensor<2xf16>
// CHECK: 7.0e4 is beyond the largest number of type f16

// -----

"test.op"() {a = array<f64 1.0>} : () -> ()
// CHECK: ':' expected in dense array

// -----

"test.op"() {a = array f64} : () -> ()
// CHECK: '<' expected in dense array
