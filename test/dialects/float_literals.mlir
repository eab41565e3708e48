// RUN: deplodock-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: deplodock-opt %s --allow-unregistered-dialect | deplodock-opt --allow-unregistered-dialect | filecheck %s
// RUN: deplodock-opt %s --allow-unregistered-dialect --print-op-generic | deplodock-opt --allow-unregistered-dialect | filecheck %s

// A hexadecimal literal of a float is a bit pattern, of an integer a number.

// CHECK: %f32 = arith.constant dense<0xff800000> : tensor<4xf32>
%f32 = arith.constant dense<0xFF800000> : tensor<4xf32>
// CHECK: %lists = arith.constant dense<{{\[}}[0x7f800000, 0xffc00001], [1.000000e+00, -2.000000e+00]]> : tensor<2x2xf32>
%lists = arith.constant dense<[[0x7f800000, 0xffc00001], [0x3f800000, -2.0]]> : tensor<2x2xf32>
// CHECK: %digits = arith.constant dense<0x4CEB79A3> : tensor<f32>
%digits = arith.constant dense<0x4CEB79A3> : tensor<f32>
// CHECK: %f16 = arith.constant dense<[0x7c00, 0xfc00, 0xfe00, 6.550400e+04]> : tensor<4xf16>
%f16 = arith.constant dense<[0x7c00, 0xfc00, 0xfe00, 0x7bff]> : tensor<4xf16>
// CHECK: %bf16 = arith.constant dense<[0x7f80, 0xff80, 0xffc1]> : tensor<3xbf16>
%bf16 = arith.constant dense<[0x7f80, 0xff80, 0xffc1]> : tensor<3xbf16>
// CHECK: %f64 = arith.constant dense<[0xfff0000000000000, 0x7ff8000000000001]> : tensor<2xf64>
%f64 = arith.constant dense<[0xfff0000000000000, 0x7ff8000000000001]> : tensor<2xf64>
// CHECK: %vector = arith.constant dense<[0xff800000, 1.000000e+00]> : vector<2xf32>
%vector = arith.constant dense<[0xff800000, 1.0]> : vector<2xf32>
// CHECK: %scalar = arith.constant 0xff800000 : f32
%scalar = arith.constant 0xff800000 : f32
// CHECK: %i32 = arith.constant dense<[255, 2139095040]> : tensor<2xi32>
%i32 = arith.constant dense<[0xff, 0x7f800000]> : tensor<2xi32>
// CHECK: {a = array<f32: 0xff800000, 1.500000e+00>, b = array<i32: 255>, c = [0xff800000 : f32, 255 : i64], d = {e = dense<0x7e00> : tensor<f16>}}
"test.op"() {a = array<f32: 0xff800000, 1.5>, b = array<i32: 0xff>, c = [0xff800000 : f32, 0xff], d = {e = dense<0x7e00> : tensor<f16>}} : () -> ()
