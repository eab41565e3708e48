// RUN: deplodock-opt %s -p 'tensor-tile{m=16 n=16}' | filecheck %s
// RUN: deplodock-opt %s -p 'tensor-tile{m=16 n=16},verify-contract' --check-semantics
// RUN: deplodock-opt %s -p 'tensor-tile{m=16 n=16},materialize,place-barriers,verify-barriers' --check-semantics
// RUN: deplodock-opt %s -p 'tensor-tile{m=16 n=16},materialize' | filecheck %s --check-prefix KERNEL
// RUN: deplodock-opt %s -p 'tensor-tile{m=16 n=16}' 2>&1 | filecheck %s --check-prefix UNSIGNED

// Bytes are multiplied 32 of k at once, and their sums are integers; a lane takes 16 bytes of a slab, of two instructions.
// CHECK-LABEL: func.func @product
// CHECK:           %[[PART:.*]] = loop.reduce {arith.addi} %ks = 0 to 1 unroll : i32 {
// CHECK-NEXT:        %k = loop.index [%k_t * 16 + %ks * 16 + %k_v]
// CHECK-NEXT:        %a = loop.load %xs[%m_c, %k]
// CHECK-NEXT:        %b = loop.load %ws[%n_o, %k]
// CHECK-NEXT:        %[[C:.*]] = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : i8, i8 -> i32
// CHECK-NEXT:        loop.yield %[[C]] : i32

// KERNEL: kernel.mma m16n8k32
func.func @product(%x: memref<16x60xi8>, %w: memref<14x60xi8>, %out: memref<16x14xi32>) {
  tile.launch (%n_b = 1 : block, %m_t = 16 : thread, %n_t = 16 : thread) {
    %n = loop.index [%n_b * 16 + %n_t]
    loop.where %n < 14
    %xs = tile.stage %x[d0, d1] : memref<16x60xi8> to memref<16x64xi8, #tile.memory<shared>>
    %ws = tile.stage %w[%n_b * 16 + d0, d1] : memref<14x60xi8> to memref<16x64xi8, #tile.memory<shared>>
    %acc = loop.reduce {arith.addi} %k = 0 to 64 : i32 {
      loop.where %k < 60
      %a = loop.load %xs[%m_t, %k] : memref<16x64xi8, #tile.memory<shared>>
      %aw = arith.extsi %a : i8 to i32
      %b = loop.load %ws[%n_t, %k] : memref<16x64xi8, #tile.memory<shared>>
      %bw = arith.extsi %b : i8 to i32
      %p = arith.muli %aw, %bw : i32
      loop.yield %p : i32
    }
    loop.store %acc, %out[%m_t, %n] : memref<16x14xi32>
  }
  func.return
}

// Bytes without a sign have no instruction here.
// UNSIGNED: tensor_tile skipped at @unsigned: mma does not multiply ui8 by ui8 to i32
func.func @unsigned(%x: memref<16x60xui8>, %w: memref<14x60xui8>, %out: memref<16x14xi32>) {
  tile.launch (%n_b = 1 : block, %m_t = 16 : thread, %n_t = 16 : thread) {
    %n = loop.index [%n_b * 16 + %n_t]
    loop.where %n < 14
    %xs = tile.stage %x[d0, d1] : memref<16x60xui8> to memref<16x64xui8, #tile.memory<shared>>
    %ws = tile.stage %w[%n_b * 16 + d0, d1] : memref<14x60xui8> to memref<16x64xui8, #tile.memory<shared>>
    %acc = loop.reduce {arith.addi} %k = 0 to 64 : i32 {
      loop.where %k < 60
      %a = loop.load %xs[%m_t, %k] : memref<16x64xui8, #tile.memory<shared>>
      %aw = arith.extui %a : ui8 to i32
      %b = loop.load %ws[%n_t, %k] : memref<16x64xui8, #tile.memory<shared>>
      %bw = arith.extui %b : ui8 to i32
      %p = arith.muli %aw, %bw : i32
      loop.yield %p : i32
    }
    loop.store %acc, %out[%m_t, %n] : memref<16x14xi32>
  }
  func.return
}
