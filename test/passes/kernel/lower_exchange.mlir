// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p materialize,place-barriers,verify-barriers,verify-resources --split-input-file --check-semantics

// The lanes of a quad hold pairs of four blocks, and each writes one of them: two steps of shuffles, of one and two lanes.
// CHECK-LABEL: kernel.func @whole
// CHECK:         %high = loop.inside where (0 < %t mod 2)
// CHECK-NEXT:    %high_1 = loop.inside where (0 < %t floordiv 2)
// CHECK-NEXT:    loop.for %[[J:.*]] = 0 to 2 unroll {
// CHECK-NEXT:      %[[A:.*]] = loop.load %y[%[[J]] * 4, 0]
// CHECK-NEXT:      %[[A1:.*]] = arith.bitcast %[[A]] : bf16 to i16
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
func.func @whole(%x: memref<8x64xbf16>, %out: memref<8x64xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 8 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x64xbf16>
    %y = arith.negf %a : bf16
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
func.func @ragged(%x: memref<8x24xbf16>, %out: memref<8x24xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.where %n < 24
    %a = loop.load %x[%g, %n] : memref<8x24xbf16>
    %y = arith.negf %a : bf16
    loop.store %y, %out[%g, %n] : memref<8x24xbf16>
  }
  func.return
}

// -----

// Half a block is left out.
// CHECK-LABEL: kernel.func @half
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @half(%x: memref<8x28xbf16>, %out: memref<8x28xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %n = loop.index [%j * 8 + %t * 2 + %r]
    loop.where %n < 28
    %a = loop.load %x[%g, %n] : memref<8x28xbf16>
    %y = arith.negf %a : bf16
    loop.store %y, %out[%g, %n] : memref<8x28xbf16>
  }
  func.return
}

// -----

// Three blocks are no square with four lanes.
// CHECK-LABEL: kernel.func @three
// CHECK-NOT:     kernel.shuffle_xor
// CHECK:         kernel.move 2 %y[%{{.*}}, 0] to %out
func.func @three(%x: memref<8x24xbf16>, %out: memref<8x24xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 3 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x24xbf16>
    %y = arith.negf %a : bf16
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
func.func @down(%x: memref<32x8xbf16>, %out: memref<32x8xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 4 : register, %r = 2 : register) {
    %a = loop.load %x[%j * 8 + %g, %t * 2 + %r] : memref<32x8xbf16>
    %y = arith.negf %a : bf16
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
func.func @six(%x: memref<8x48xbf16>, %out: memref<8x48xbf16>) {
  tile.launch (%g = 8 : thread, %t = 4 : thread, %j = 6 : register, %r = 2 : register) {
    %a = loop.load %x[%g, %j * 8 + %t * 2 + %r] : memref<8x48xbf16>
    %y = arith.negf %a : bf16
    loop.store %y, %out[%g, %j * 8 + %t * 2 + %r] : memref<8x48xbf16>
  }
  func.return
}
