// RUN: deplodock-opt %s -p materialize,fuse-multiply-add --split-input-file | filecheck %s

// Fragments are read 16 bytes at a time, then all products of a step are added in one nest, rows outside. The accumulators
// are stored one by one.
// CHECK-LABEL: kernel.func @fragments
// CHECK:         %acc = kernel.alloc : memref<2x4x4xf32, #tile.memory<register>>
// CHECK:         loop.for %k = 0 to 32 unroll {
// CHECK-NEXT:      %a = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:      loop.for %[[MO:.*]] = 0 to 2 unroll {
// CHECK-NEXT:        kernel.move 4 %xs[%k, %[[MO]] * 8 + %m_t * 4] to %a[%[[MO]], 0]
// CHECK-NEXT:      }
// CHECK-NEXT:      %b = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 4 %w[%k, %n_t * 4] to %b[0]
// CHECK-NEXT:      loop.for %[[MO2:.*]] = 0 to 2 unroll {
// CHECK-NEXT:        loop.for %[[MV:.*]] = 0 to 4 unroll {
// CHECK-NEXT:          loop.for %[[N:.*]] = 0 to 4 unroll {
// CHECK-NEXT:            %[[A:.*]] = loop.load %a[%[[MO2]], %[[MV]]]
// CHECK-NEXT:            %[[B:.*]] = loop.load %b[%[[N]]]
// CHECK-NEXT:            %[[C:.*]] = loop.load %acc[%[[MO2]], %[[MV]], %[[N]]]
// CHECK-NEXT:            %[[R:.*]] = math.fma %[[A]], %[[B]], %[[C]] : f32
// CHECK-NEXT:            loop.store %[[R]], %acc[%[[MO2]], %[[MV]], %[[N]]]
// CHECK:         loop.store %{{.*}}, %out[
func.func @fragments(%x: memref<16x32xf32>, %w: memref<32x32xf32>, %out: memref<16x32xf32>) {
  tile.launch (%m_t = 2 : thread, %n_t = 8 : thread, %m_ro = 2 : register, %m_rv = 4 : register, %n_r = 4 : register) {
    %m = loop.index [%m_ro * 8 + %m_t * 4 + %m_rv]
    %n = loop.index [%n_t * 4 + %n_r]
    %xs = tile.stage %x[d1, d0] : memref<16x32xf32> to memref<32x16xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 32 unroll : f32 {
      %a = loop.load %xs[%k, %m] : memref<32x16xf32, #tile.memory<shared>>
      %b = loop.load %w[%k, %n] : memref<32x32xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<16x32xf32>
  }
  func.return
}

// -----

// An unrolled reduction over four neighbours reads them at once, before the loop.
// CHECK-LABEL: kernel.func @vectors
// CHECK:         loop.for %ko = 0 to 8 {
// CHECK-NEXT:      %a = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
// CHECK-NEXT:      loop.for %[[M:.*]] = 0 to 2 unroll {
// CHECK-NEXT:        kernel.move 4 %x[%m_t * 2 + %[[M]], %ko * 4] to %a[%[[M]], 0]
// CHECK-NEXT:      }
// CHECK-NEXT:      %b = kernel.alloc : memref<4xf32, #tile.memory<register>>
// CHECK-NEXT:      kernel.move 4 %w[%ko * 4] to %b[0]
// CHECK-NEXT:      loop.for %[[KI:.*]] = 0 to 4 unroll {
// CHECK-NEXT:        loop.for %[[M2:.*]] = 0 to 2 unroll {
// CHECK-NEXT:          loop.load %a[%[[M2]], %[[KI]]]
// CHECK-NEXT:          loop.load %b[%[[KI]]]
func.func @vectors(%x: memref<16x32xf32>, %w: memref<32xf32>, %out: memref<16xf32>) {
  tile.launch (%m_t = 8 : thread, %m_r = 2 : register) {
    %m = loop.index [%m_t * 2 + %m_r]
    %acc = loop.reduce {arith.addf} %ko = 0 to 8 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 4 unroll : f32 {
        %k = loop.index [%ko * 4 + %ki]
        %a = loop.load %x[%m, %k] : memref<16x32xf32>
        %b = loop.load %w[%k] : memref<32xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m] : memref<16xf32>
  }
  func.return
}

// -----

// Past the end of k both factors are zero, so nothing guards the sum.
// CHECK-LABEL: kernel.func @zeros
// CHECK-NOT:     loop.guard
// CHECK:         kernel.move 1 %x[%m, %ko * 16 + %ki] to %{{.*}} where (%ko * 16 + %ki < 37)
// CHECK-NOT:     loop.guard
// CHECK:         loop.store %{{.*}}, %out
func.func @zeros(%x: memref<8x37xf32>, %w: memref<37xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %ws = tile.stage %w[%ko * 16 + d0] : memref<37xf32> to memref<16xf32, #tile.memory<shared>>
      %0 = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
        %k = loop.index [%ko * 16 + %ki]
        loop.where %k < 37
        %a = loop.load %x[%m, %k] : memref<8x37xf32>
        %b = loop.load %ws[%ki] : memref<16xf32, #tile.memory<shared>>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// A factor that is computed, or that another buffer bounds elsewhere, may be infinite there.
// CHECK-LABEL: kernel.func @computed
// CHECK:         loop.guard where (%ko * 16 + %ki < 37) {
func.func @computed(%x: memref<8x37xf32>, %w: memref<37xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
        %k = loop.index [%ko * 16 + %ki]
        loop.where %k < 37
        %a = loop.load %x[%m, %k] : memref<8x37xf32>
        %b = loop.load %w[%k] : memref<37xf32>
        %e = math.log %b : f32
        %p = arith.mulf %a, %e : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}

// -----

// CHECK-LABEL: kernel.func @longer
// CHECK:         loop.guard where (%ko * 16 + %ki < 37) {
func.func @longer(%x: memref<8x37xf32>, %w: memref<40xf32>, %out: memref<8xf32>) {
  tile.launch (%m = 8 : thread) {
    %acc = loop.reduce {arith.addf} %ko = 0 to 3 : f32 {
      %0 = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
        %k = loop.index [%ko * 16 + %ki]
        loop.where %k < 37
        %a = loop.load %x[%m, %k] : memref<8x37xf32>
        %b = loop.load %w[%k] : memref<40xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.yield %0 : f32
    }
    loop.store %acc, %out[%m] : memref<8xf32>
  }
  func.return
}
