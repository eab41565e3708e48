// Each kernel that tensor cores cannot take is left as it is, for its reason.
// RUN: deplodock-opt %s -p tensor-tile 2>&1 | filecheck %s
// RUN: not deplodock-opt %s -p 'tensor-tile{engine=wgmma}' 2>&1 | filecheck %s --check-prefix WGMMA

// CHECK-DAG: skipped at @f32: mma reads f32 as TF32, which the precision of the product does not allow
func.func @f32(%x: memref<64x64xf32>, %w: memref<32x64xf32>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xf32> to memref<64x64xf32, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xf32> to memref<32x64xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %af = loop.load %xs[%m_t, %k] : memref<64x64xf32, #tile.memory<shared>>
      %bf = loop.load %ws[%n_t, %k] : memref<32x64xf32, #tile.memory<shared>>
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @doubled: the factor %af is computed, not read
func.func @doubled(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %a2 = arith.addf %a, %a : bf16
      %af = arith.extf %a2 : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// WGMMA: @stride: its chunk has several loops; run chunk-matmul-k with kv=1
func.func @stride(%x: memref<64x64xbf16>, %w: memref<64x32xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<64x32xbf16> to memref<64x32xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%k, %n_t] : memref<64x32xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @diagonal: %k does not walk %ws along one dimension
func.func @diagonal(%x: memref<64x64xbf16>, %w: memref<64x32xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<64x32xbf16> to memref<64x32xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t + %k, %k] : memref<64x32xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @chunk: a chunk of 40 elements of k is no multiple of the 16 of an instruction
func.func @chunk(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 40 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @rows: the extent 40 of %m_t is no multiple of 16
func.func @rows(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 40 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @mask: a condition over %k, %m_t leaves out elements that are not zero in the slabs
func.func @mask(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      loop.where %k < %m_t + 1
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @register: the launch has register axes already; tensor-tile stands in place of register-tile
func.func @register(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread, %v = 2 : register) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @batch: threads share the tile along %u too
func.func @batch(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread, %u = 2 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @global: %x is read from global memory; run stage-inputs first
func.func @global(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %x[%k, %m_t] : memref<64x64xbf16>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @columns: the columns of a CTA run along 2 axes of constant extent, not along one
func.func @columns(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_u = 2 : thread, %n_t = 16 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_u * 16 + %n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_u * 16 + %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @more: the loop over %k holds arith.addf besides its product
func.func @more(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 64 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %c = arith.addf %af, %af : f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}

// CHECK-DAG: skipped at @many: warps of so few outputs make 2048 threads of a CTA, above 1024
func.func @many(%x: memref<64x64xbf16>, %w: memref<32x64xbf16>, %out: memref<64x32xf32>) {
  tile.launch (%m_t = 4096 : thread, %n_t = 32 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<32x64xbf16> to memref<32x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m_t, %k] : memref<64x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n_t, %k] : memref<32x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m_t, %n_t] : memref<64x32xf32>
  }
  func.return
}
