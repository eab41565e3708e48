// Warpgroups read slabs that come in swizzled boxes, so a factor whose slab never can is left to other rules.
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=wgmma}' 2>&1 | filecheck %s

// CHECK:      tensor-tile{engine=wgmma} applies to no kernel:
// CHECK-SAME: @strided_bytes: %ws: wgmma reads bytes along k, and the rows of its slab run along another axis
// CHECK-SAME: @odd_rows: %xs: wgmma reads slabs that come in boxes: the rows of a buffer with a tensor map are multiples of 16 bytes, got 35 bf16
// CHECK-SAME: @short_rows: %ws: wgmma reads swizzled slabs: rows of 48 bytes are no multiple of 32
// CHECK-SAME: @allocated: %ws is filled by no tile.stage, and wgmma reads slabs that come in boxes
// CHECK-SAME: @stepped: %xs: wgmma reads neighbouring rows of a slab, and its rows are read in steps
builtin.module attributes {kernel.target = #kernel.target<sm_90, sms = 132, threads_per_block = 1024, threads_per_sm = 2048, blocks_per_sm = 32, registers_per_thread = 255, registers_per_sm = 65536, shared_per_block = 232448, shared_per_sm = 233472, l2_bytes = 52428800, dram_gbps = 3350, fp32_lanes = 128, fp32_gflops = 66908, launch_ns = 1250>} {
  func.func @strided_bytes(%x: memref<64x64xi8>, %w: memref<64x32xi8>, %out: memref<64x24xi32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 24 : thread) {
      %acc = loop.reduce {arith.addi} %ko = 0 to 2 : i32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x64xi8> to memref<64x32xi8, #tile.memory<shared>>
        %ws = tile.stage %w[%ko * 32 + d0, d1] : memref<64x32xi8> to memref<32x24xi8, #tile.memory<shared>>
        %part = loop.reduce {arith.addi} %ki = 0 to 32 : i32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xi8, #tile.memory<shared>>
          %aw = arith.extsi %a : i8 to i32
          %b = loop.load %ws[%ki, %n_t] : memref<32x24xi8, #tile.memory<shared>>
          %bw = arith.extsi %b : i8 to i32
          %p = arith.muli %aw, %bw : i32
          loop.yield %p : i32
        }
        loop.yield %part : i32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x24xi32>
    }
    func.return
  }

  func.func @odd_rows(%x: memref<64x35xbf16>, %w: memref<24x64xbf16>, %out: memref<64x24xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 24 : thread) {
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x35xbf16> to memref<64x32xbf16, #tile.memory<shared>>
        %ws = tile.stage %w[d0, %ko * 32 + d1] : memref<24x64xbf16> to memref<24x32xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xbf16, #tile.memory<shared>>
          %aw = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%n_t, %ki] : memref<24x32xbf16, #tile.memory<shared>>
          %bw = arith.extf %b : bf16 to f32
          %p = arith.mulf %aw, %bw : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x24xf32>
    }
    func.return
  }

  func.func @short_rows(%x: memref<64x64xbf16>, %w: memref<64x24xbf16>, %out: memref<64x24xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 24 : thread) {
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x64xbf16> to memref<64x32xbf16, #tile.memory<shared>>
        %ws = tile.stage %w[%ko * 32 + d0, d1] : memref<64x24xbf16> to memref<32x24xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xbf16, #tile.memory<shared>>
          %aw = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%ki, %n_t] : memref<32x24xbf16, #tile.memory<shared>>
          %bw = arith.extf %b : bf16 to f32
          %p = arith.mulf %aw, %bw : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x24xf32>
    }
    func.return
  }

  func.func @allocated(%x: memref<64x64xbf16>, %w: memref<24x64xbf16>, %out: memref<64x24xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 24 : thread) {
      %ws = tile.alloc : memref<24x64xbf16, #tile.memory<shared>>
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<64x64xbf16> to memref<64x32xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t, %ki] : memref<64x32xbf16, #tile.memory<shared>>
          %aw = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%n_t, %ko * 32 + %ki] : memref<24x64xbf16, #tile.memory<shared>>
          %bw = arith.extf %b : bf16 to f32
          %p = arith.mulf %aw, %bw : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x24xf32>
    }
    func.return
  }

  func.func @stepped(%x: memref<128x64xbf16>, %w: memref<24x64xbf16>, %out: memref<64x24xf32>) {
    tile.launch (%m_t = 64 : thread, %n_t = 24 : thread) {
      %acc = loop.reduce {arith.addf} %ko = 0 to 2 : f32 {
        %xs = tile.stage %x[d0, %ko * 32 + d1] : memref<128x64xbf16> to memref<127x32xbf16, #tile.memory<shared>>
        %ws = tile.stage %w[d0, %ko * 32 + d1] : memref<24x64xbf16> to memref<24x32xbf16, #tile.memory<shared>>
        %part = loop.reduce {arith.addf} %ki = 0 to 32 : f32 {
          %a = loop.load %xs[%m_t * 2, %ki] : memref<127x32xbf16, #tile.memory<shared>>
          %aw = arith.extf %a : bf16 to f32
          %b = loop.load %ws[%n_t, %ki] : memref<24x32xbf16, #tile.memory<shared>>
          %bw = arith.extf %b : bf16 to f32
          %p = arith.mulf %aw, %bw : f32
          loop.yield %p : f32
        }
        loop.yield %part : f32
      }
      loop.store %acc, %out[%m_t, %n_t] : memref<64x24xf32>
    }
    func.return
  }
}
