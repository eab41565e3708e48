// RUN: deplodock-opt %s -t cuda --split-input-file | filecheck %s

// Hints become identifiers that are unique, no keywords, and no functions that the text calls.
// CHECK-LABEL: k_names(const double* __restrict__ float_1, double* __restrict__ out)
// CHECK:         const int block = blockIdx.x, tid = threadIdx.x;
// CHECK-NEXT:    const double p_weight_0 = float_1[tid];
// CHECK-NEXT:    const double exp_1 = exp(p_weight_0);
// CHECK-NEXT:    const double maximum_1 = maximum(exp_1, exp_1);
// CHECK-NEXT:    const double out_1 = maximum_1 + maximum_1;
// CHECK-NEXT:    const double out_2 = out_1 + out_1;
// CHECK-NEXT:    const double v = out_2 + out_2;
// CHECK-NEXT:    const double v_1 = v + v;
// CHECK-NEXT:    out[tid] = v_1;
kernel.func @k_names(%float: memref<32xf64>, %out: memref<32xf64>) blocks(%0 = 1) threads(%tid = 32) {
  %p.weight$0 = loop.load %float[%tid] : memref<32xf64>
  %exp = math.exp %p.weight$0 : f64
  %maximum = arith.maximumf %exp, %exp : f64
  %out_1 = arith.addf %maximum, %maximum : f64
  %out_1_1 = arith.addf %out_1, %out_1 : f64
  %1 = arith.addf %out_1_1, %out_1_1 : f64
  %2 = arith.addf %1, %1 : f64
  loop.store %2, %out[%tid] : memref<32xf64>
}

// -----

// What looks like a macro of the headers gets another name.
// CHECK-LABEL: k_macros(float* W)
// CHECK:         const float M_PI_ = W[thread];
// CHECK-NEXT:    const float INT_MAX_ = M_PI_ + M_PI_;
// CHECK-NEXT:    const float cudaEventDefault_ = INT_MAX_ + INT_MAX_;
kernel.func @k_macros(%W: memref<32xf32>) blocks(%block = 1) threads(%thread = 32) {
  %M_PI = loop.load %W[%thread] : memref<32xf32>
  %INT_MAX = arith.addf %M_PI, %M_PI : f32
  %cudaEventDefault = arith.addf %INT_MAX, %INT_MAX : f32
  loop.store %cudaEventDefault, %W[%thread] : memref<32xf32>
}

// -----

// A module's kernels are printed in order, after the helpers that any of them needs, once.
// CHECK-NOT:   float minimumf(
// CHECK:       float maximumf(float a, float b)
// CHECK-NOT:   double maximum(
// CHECK:       void __launch_bounds__(32) k_first(
// CHECK-NOT:   float maximumf(float a, float b)
// CHECK:       void __launch_bounds__(64, 2) k_maximum(
// CHECK-NOT:   func
builtin.module {
  func.func @run(%x: memref<32xf32>) {
    kernel.launch @k_first(%x) : memref<32xf32>
    func.return
  }
  kernel.func @k_first(%x: memref<32xf32>) blocks(%block = 1) threads(%thread = 32) {
    %v = loop.load %x[%thread] : memref<32xf32>
    %w = arith.maximumf %v, %v : f32
    loop.store %w, %x[%thread] : memref<32xf32>
  }
  kernel.func @k_maximum(%x: memref<32xf32>) blocks(%block = 1) threads(%thread = 64) occupancy 2 {
    %v = loop.load %x[%thread] : memref<32xf32>
    %w = arith.maximumf %v, %v : f32
    loop.store %w, %x[%thread] : memref<32xf32>
  }
}
