// RUN: deplodock-opt %s --split-input-file -p store-low-parts --check-semantics | filecheck %s
// RUN: sed 's/kernel.target<sm_90/kernel.target<sm_80/' %s | deplodock-opt --split-input-file -p store-low-parts | filecheck %s --check-prefix OLD
// RUN: sed 's/kernel.target<sm_90/kernel.target<sm_120/' %s | deplodock-opt --split-input-file -p store-low-parts | filecheck %s --check-prefix OLD

// Warps alone need no low part in memory, whether or not boxes could bring it.
// OLD-NOT: low_part

// The factor of fewer bytes is stored in parts, once for all products that read it.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    %x_low = tensor_ext.elementwise {math_ext.low_part} %x attributes {deplodock.fuse = "never"} : tensor<64x64xf32>
// CHECK-NEXT:    %[[BOTH:.*]] = tensor_ext.elementwise {math_ext.with_low_part} %x, %x_low : tensor<64x64xf32>
// CHECK-NEXT:    %gate_x = tensor_ext.index_map %[[BOTH]]
// CHECK-NEXT:    %gate_w = tensor_ext.index_map %w
// CHECK:         %up_x = tensor_ext.index_map %[[BOTH]]
// CHECK-NOT:     low_part
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @linear(%x: tensor<64x64xf32>, %w: tensor<1024x64xf32>, %v: tensor<1024x64xf32>) -> (tensor<64x1024xf32>, tensor<64x1024xf32>) {
    %gate_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %gate_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %gate_p = tensor_ext.elementwise %gate_x, %gate_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%gate_0: f32, %gate_1: f32) {
      %gate_2 = arith.mulf %gate_0, %gate_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %gate_2 : f32
    }
    %gate = tensor_ext.reduce {arith.addf} %gate_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    %up_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %up_w = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %up_p = tensor_ext.elementwise %up_x, %up_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%up_0: f32, %up_1: f32) {
      %up_2 = arith.mulf %up_0, %up_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %up_2 : f32
    }
    %up = tensor_ext.reduce {arith.addf} %up_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %gate, %up : tensor<64x1024xf32>, tensor<64x1024xf32>
  }
}

// -----

// Weights that k walks with a stride are held by threads, in any layout.
// CHECK-LABEL: func.func @strided
// CHECK:         {math_ext.with_low_part} %x, %x_low
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @strided(%x: tensor<64x64xf32>, %w: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x1024xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
}

// -----

// What maps give, as heads side by side, is stored as it is read, with its low part.
// CHECK-LABEL: func.func @heads
// CHECK:         %[[X:.*]], %{{.*}}_low = tensor_ext.elementwise %rows attributes {deplodock.fuse = "never"}
// CHECK-NEXT:      math_ext.low_part
// CHECK:         {math_ext.with_low_part} %[[X]],
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @heads(%x: tensor<4x64x16xf32>, %w: tensor<1024x64xf32>) -> tensor<64x1024xf32> {
    %rows = tensor_ext.index_map %x affine_map<(d0, d1) -> (d1 floordiv 16, d0, d1 mod 16)> : tensor<4x64x16xf32> -> tensor<64x64xf32>
    %y_x = tensor_ext.index_map %rows affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
}

// -----

// Few rows and a short k are left to warps. What TF32 multiplies, or sums along another dimension than the last add up,
// has no low part. Warps compute scores that a softmax takes to weigh values.
// CHECK-LABEL: func.func @few
// CHECK-NOT:     low_part
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @few(%x: tensor<8x64xf32>, %w: tensor<1024x64xf32>) -> tensor<8x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<8x64xf32> -> tensor<8x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<8x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<8x1024x64xf32>, tensor<8x1024x64xf32> -> tensor<8x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<8x1024x64xf32> -> tensor<8x1024xf32>
    func.return %y : tensor<8x1024xf32>
  }
  func.func @short(%x: tensor<64x32xf32>, %w: tensor<1024x32xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x32xf32> -> tensor<64x1024x32xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x32xf32> -> tensor<64x1024x32xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x32xf32>, tensor<64x1024x32xf32> -> tensor<64x1024x32xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x32xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
  func.func @medium(%x: tensor<64x64xf32>, %w: tensor<1024x64xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "medium"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
  func.func @rows(%x: tensor<64x64xf32>, %w: tensor<1024x64xf32>) -> tensor<64x64xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [1] : tensor<64x1024x64xf32> -> tensor<64x64xf32>
    func.return %y : tensor<64x64xf32>
  }
  func.func @attention(%x: tensor<64x64xf32>, %w: tensor<1024x64xf32>, %v: tensor<1024x64xf32>) -> tensor<64x64xf32> {
    %s_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %s_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %s_p = tensor_ext.elementwise %s_x, %s_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%s_0: f32, %s_1: f32) {
      %s_2 = arith.mulf %s_0, %s_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %s_2 : f32
    }
    %s = tensor_ext.reduce {arith.addf} %s_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    %max = tensor_ext.reduce {arith.maximumf} %s dims [1] : tensor<64x1024xf32> -> tensor<64xf32>
    %max_1 = tensor_ext.index_map %max affine_map<(d0, d1) -> (d0)> : tensor<64xf32> -> tensor<64x1024xf32>
    %shifted = tensor_ext.elementwise {arith.subf} %s, %max_1 : tensor<64x1024xf32>
    %e = tensor_ext.elementwise {math.exp} %shifted : tensor<64x1024xf32>
    %o_x = tensor_ext.index_map %e affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x1024xf32> -> tensor<64x64x1024xf32>
    %o_w = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<1024x64xf32> -> tensor<64x64x1024xf32>
    %o_p = tensor_ext.elementwise %o_x, %o_w : tensor<64x64x1024xf32>, tensor<64x64x1024xf32> -> tensor<64x64x1024xf32> (%o_0: f32, %o_1: f32) {
      %o_2 = arith.mulf %o_0, %o_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %o_2 : f32
    }
    %o = tensor_ext.reduce {arith.addf} %o_p dims [2] : tensor<64x64x1024xf32> -> tensor<64x64xf32>
    func.return %o : tensor<64x64xf32>
  }
}

// -----

// Rows that k walks across, or that boxes do not take, are left as they are: threads hold them, or warps multiply.
// CHECK-LABEL: func.func @across
// CHECK-NOT:     low_part
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @across(%x: tensor<64x64xf32>, %w: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d2, d0)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x1024xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
  func.func @diagonal(%x: tensor<127x64xf32>, %w: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0 + d2, d2)> : tensor<127x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x1024xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
  func.func @ragged(%x: tensor<64x66xf32>, %w: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x66xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x1024xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
  func.func @windows(%x: tensor<64x128xf32>, %w: tensor<64x1024xf32>) -> tensor<64x1024xf32> {
    %y_x = tensor_ext.index_map %x affine_map<(d0, d1, d2) -> (d0, d0 + d2)> : tensor<64x128xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d2, d1)> : tensor<64x1024xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
}

// -----

// The shares of attention are no factor that is stored, nor are the values beside them, in whichever order they lie.
// CHECK-LABEL: func.func @shares
// CHECK-NOT:     low_part
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 4800, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @shares(%x: tensor<64x64xf32>, %v: tensor<1024x64xf32>) -> tensor<64x1024xf32> {
    %e = tensor_ext.elementwise %x : tensor<64x64xf32> -> tensor<64x64xf32> (%e_0: f32) {
      %e_1 = math.exp %e_0 fastmath<reassoc> : f32
      tensor_ext.yield %e_1 : f32
    }
    %y_x = tensor_ext.index_map %e affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<64x64xf32> -> tensor<64x1024x64xf32>
    %y_w = tensor_ext.index_map %v affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<1024x64xf32> -> tensor<64x1024x64xf32>
    %y_p = tensor_ext.elementwise %y_x, %y_w : tensor<64x1024x64xf32>, tensor<64x1024x64xf32> -> tensor<64x1024x64xf32> (%y_0: f32, %y_1: f32) {
      %y_2 = arith.mulf %y_0, %y_1 {deplodock.precision = "high"} : f32
      tensor_ext.yield %y_2 : f32
    }
    %y = tensor_ext.reduce {arith.addf} %y_p dims [2] : tensor<64x1024x64xf32> -> tensor<64x1024xf32>
    func.return %y : tensor<64x1024xf32>
  }
}
