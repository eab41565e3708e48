// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers,verify-barriers,verify-resources --split-input-file --check-semantics

// The lanes of a quad hold pairs of four blocks, and each writes one of them: two steps of shuffles, of one and two lanes.
// CHECK-LABEL: kernel.func @whole
// CHECK:         %high = loop.inside where (0 < %t mod 2)
// CHECK-NEXT:    %high_1 = loop.inside where (0 < %t floordiv 2)
// CHECK-NEXT:    loop.for %[[J:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      %vector = kernel.alloc : memref<8xbf16, #tile.memory<register>>
// CHECK-NEXT:      %[[A:.*]] = loop.load %y[%[[J]] * 4, 0]
// CHECK:           %[[A1:.*]] = arith.bitcast %[[A]] : bf16 to i16
// CHECK-NEXT:      %[[A2:.*]] = arith.extui %[[A1]] : i16 to i32
// CHECK:           %[[LOW:.*]] = arith.ori %[[A2]], %{{.*}} : i32
// CHECK:           loop.load %y[%[[J]] * 4 + 3, 1]
// CHECK:           %[[SENT:.*]] = arith.select %high, %[[LOW]], %[[HIGH:.*]] : i32
// CHECK-NEXT:      %[[TAKEN:.*]] = kernel.shuffle_xor %[[SENT]], 1 : i32
// CHECK-NEXT:      arith.select %high, %[[TAKEN]], %[[LOW]] : i32
// CHECK-NEXT:      arith.select %high, %[[HIGH]], %[[TAKEN]] : i32
// CHECK:           kernel.shuffle_xor %{{.*}}, 1 : i32
// CHECK:           kernel.shuffle_xor %{{.*}}, 2 : i32
// CHECK:           kernel.shuffle_xor %{{.*}}, 2 : i32
// CHECK-NOT:       kernel.shuffle_xor
// CHECK:           kernel.move 8 %vector[0] to %out[%g, %[[J]] * 32 + %t * 8]
func.func @whole(%x: memref<8x64xf32>, %out: memref<8x64xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 8 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x64xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%g, %j * 8 + %t * 2 + %r] : memref<8x64xbf16>
  }
  func.return
}

// -----

// A condition that whole blocks meet or fail guards the store alone: all lanes exchange.
// CHECK-LABEL: kernel.func @ragged
// CHECK:         kernel.shuffle_xor
// CHECK:         loop.guard where (%t * 8 < 24) {
// CHECK-NEXT:      kernel.move 8
// CHECK-NEXT:    }
func.func @ragged(%x: memref<8x24xf32>, %out: memref<8x24xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.where %n < 24
    %a = loop.load %x[%g, %n] : memref<8x24xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%g, %n] : memref<8x24xbf16>
  }
  func.return
}

// -----

// Half a block is left out.
// CHECK-LABEL: kernel.func @half
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @half(%x: memref<8x28xf32>, %out: memref<8x28xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.where %n < 28
    %a = loop.load %x[%g, %n] : memref<8x28xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%g, %n] : memref<8x28xbf16>
  }
  func.return
}

// -----

// Three blocks are no square with four lanes.
// CHECK-LABEL: kernel.func @three
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @three(%x: memref<8x24xf32>, %out: memref<8x24xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 3 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x24xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%g, %j * 8 + %t * 2 + %r] : memref<8x24xbf16>
  }
  func.return
}

// -----

// Pairs of f32 are no words; they fill sectors as they are.
// CHECK-LABEL: kernel.func @wide
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @wide(%x: memref<8x32xf32>, %out: memref<8x32xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x32xf32>
    %y = arith.negf %a : f32
    loop.store %y, %out[%g, %j * 8 + %t * 2 + %r] : memref<8x32xf32>
  }
  func.return
}

// -----

// Blocks walk rows: the columns of a lane are not those of its quad's blocks.
// CHECK-LABEL: kernel.func @down
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @down(%x: memref<32x8xf32>, %out: memref<32x8xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %a = loop.load %x[%j * 8 + %g, %t * 2 + %r] : memref<32x8xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%j * 8 + %g, %t * 2 + %r] : memref<32x8xbf16>
  }
  func.return
}

// -----

// Of six blocks, the last two stay pairs.
// CHECK-LABEL: kernel.func @six
// CHECK-COUNT-4: kernel.shuffle_xor
// CHECK:         kernel.move 8 %vector[0] to %out[%g, %t * 8]
// CHECK:         kernel.move 2 %y[4, 0] to %out[%g, %t * 2 + 32]
// CHECK:         kernel.move 2 %y[5, 0] to %out[%g, %t * 2 + 40]
func.func @six(%x: memref<8x48xf32>, %out: memref<8x48xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 6 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x48xf32>
    %y = arith.truncf %a : f32 to bf16
    loop.store %y, %out[%g, %j * 8 + %t * 2 + %r] : memref<8x48xbf16>
  }
  func.return
}

// -----

// A residual comes in whole blocks, where there are such, whose pairs go back to their lanes.
// CHECK-LABEL: kernel.func @residual
// CHECK:         loop.for %[[H:.*]] = 0 to 2 unroll {
// CHECK:           kernel.move 8 %x[%[[H]] * 8 + %g, %t * 8] to %vector[0] : memref<16x40xbf16>
// CHECK:           %[[E:.*]] = loop.load %vector[7]
// CHECK:           arith.bitcast %[[E]] : bf16 to i16
// CHECK-COUNT-4:   kernel.shuffle_xor
// CHECK-NOT:       kernel.shuffle_xor
// CHECK:           loop.store %{{.*}}, %a[%[[H]], 3, 1]
// CHECK-NEXT:    }
// CHECK-NEXT:    loop.for %[[H:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      kernel.move 2 %x[%[[H]] * 8 + %g, %t * 2 + 32] to %a[%[[H]], 4, 0]
func.func @residual(%x: memref<16x40xbf16>, %out: memref<16x40xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %h = 2 : register, %j = 5 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    %a = loop.load %x[%h * 8 + %g, %n] : memref<16x40xbf16>
    %y = arith.extf %a : bf16 to f32
    loop.store %y, %out[%h * 8 + %g, %n] : memref<16x40xf32>
  }
  func.return
}

// -----

// All quads of a warp read the same bias, in pairs that are one sector.
// CHECK-LABEL: kernel.func @bias
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %x[%j * 8 + %t * 2]
func.func @bias(%x: memref<32xbf16>, %out: memref<8x32xf32>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    %a = loop.load %x[%n] : memref<32xbf16>
    %y = arith.extf %a : bf16 to f32
    loop.store %y, %out[%g, %n] : memref<8x32xf32>
  }
  func.return
}

// -----

// The last CTA of a tile stores as one.
// CHECK-LABEL: kernel.func @last
// CHECK:         loop.guard where (0 < %last) {
// CHECK-COUNT-4:   kernel.shuffle_xor
// CHECK:           kernel.move 8 %vector[0] to %out[%g, %t * 8]
func.func @last(%x: memref<2x8x32xf32>, %out: memref<8x32xbf16>) {
  tile.launch (%s = 2 : block, %g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    %a = loop.load %x[%s, %g, %n] : memref<2x8x32xf32>
    %b = tile.combine {arith.addf} %a over (%s) : f32
    %y = arith.truncf %b : f32 to bf16
    loop.store %y, %out[%g, %n] : memref<8x32xbf16>
  }
  func.return
}

// -----

// All lanes run the iterations of a loop of a constant end, so they exchange in it.
// CHECK-LABEL: kernel.func @loop
// CHECK:         kernel.shuffle_xor
func.func @loop(%x: memref<8x8x32xf32>, %out: memref<8x8x32xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.for %i = 0 to 8 {
      %a = loop.load %x[%i, %g, %n] : memref<8x8x32xf32>
      %y = arith.truncf %a : f32 to bf16
      loop.store %y, %out[%i, %g, %n] : memref<8x8x32xbf16>
    }
  }
  func.return
}

// -----

// A loop may end for some lanes before it does for others; then nothing is exchanged in it.
// CHECK-LABEL: kernel.func @varying_loop
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @varying_loop(%x: memref<8x8x32xf32>, %out: memref<8x8x32xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.for %i = 0 to min(8, %g + 8) {
      %a = loop.load %x[%i, %g, %n] : memref<8x8x32xf32>
      %y = arith.truncf %a : f32 to bf16
      loop.store %y, %out[%i, %g, %n] : memref<8x8x32xbf16>
    }
  }
  func.return
}
