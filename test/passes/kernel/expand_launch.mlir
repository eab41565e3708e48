// RUN: deplodock-opt %s -p expand-launch --split-input-file | filecheck %s
// What is expanded is left as it is.
// RUN: deplodock-opt %s -p expand-launch,expand-launch --split-input-file | filecheck %s
// What is printed between the passes reads back.
// RUN: deplodock-opt %s -p expand-launch --split-input-file | deplodock-opt --split-input-file | filecheck %s

// The axes of CTAs stay. The thread axes become one, the register axes loops over register buffers.
// CHECK-LABEL: func.func @sum(%x: memref<4x64xf32>, %out: memref<4xf32>) {
// CHECK-NEXT:      tile.launch (%row = 2 : block, %s = 2 : cluster, %thread = 32 : thread) occupancy 2 attributes {expanded} {
// CHECK-NEXT:        %t = loop.index [%thread]
// CHECK-NEXT:        %a = kernel.alloc : memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:        kernel.move 2 %x[%row * 2 + %s, %t * 2] to %a[0] : memref<4x64xf32> to memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:        %sum = kernel.alloc : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        %0 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        loop.store %0, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        loop.for %v = 0 to 2 unroll {
// CHECK-NEXT:          %a_1 = loop.load %a[%v] : memref<2xf32, #tile.memory<register>>
// CHECK-NEXT:          %1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:          %2 = arith.addf %1, %a_1 : f32
// CHECK-NEXT:          loop.store %2, %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        }
// CHECK-NEXT:        %sum_1 = loop.load %sum[] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:        %3 = kernel.shuffle_xor %sum_1, 16 : f32
// CHECK-NEXT:        %4 = arith.addf %sum_1, %3 : f32
// CHECK-NEXT:        %5 = kernel.shuffle_xor %4, 8 : f32
// CHECK-NEXT:        %6 = arith.addf %4, %5 : f32
// CHECK-NEXT:        %7 = kernel.shuffle_xor %6, 4 : f32
// CHECK-NEXT:        %8 = arith.addf %6, %7 : f32
// CHECK-NEXT:        %9 = kernel.shuffle_xor %8, 2 : f32
// CHECK-NEXT:        %10 = arith.addf %8, %9 : f32
// CHECK-NEXT:        %11 = kernel.shuffle_xor %10, 1 : f32
// CHECK-NEXT:        %sum_2 = arith.addf %10, %11 : f32
// CHECK-NEXT:        loop.guard where (%t < 1) {
// CHECK-NEXT:          loop.store %sum_2, %out[%row * 2 + %s] : memref<4xf32>
// CHECK-NEXT:        }
// CHECK-NEXT:      }
func.func @main(%x: memref<4x64xf32>) -> memref<4xf32> {
  %out = memref.alloc() : memref<4xf32>
  func.call @sum(%x, %out) : (memref<4x64xf32>, memref<4xf32>) -> ()
  func.return %out : memref<4xf32>
}
func.func @sum(%x: memref<4x64xf32>, %out: memref<4xf32>) {
  tile.launch (%row = 2 : block, %s = 2 : cluster, %t = 32 : thread, %v = 2 : register) occupancy 2 {
    %a = loop.load %x[%row * 2 + %s, %t * 2 + %v] : memref<4x64xf32>
    %sum = tile.combine {arith.addf} %a over (%t, %v) : f32
    loop.store %sum, %out[%row * 2 + %s] : memref<4xf32>
  }
  func.return
}

// -----

// The coordinates of several thread axes are digits of the linear id.
// CHECK-LABEL: func.func @two
// CHECK-NEXT:    tile.launch (%thread = 32 : thread) attributes {expanded} {
// CHECK-NEXT:      %i = loop.index [%thread floordiv 8]
// CHECK-NEXT:      %j = loop.index [%thread mod 8]
// CHECK-NEXT:      %a = loop.load %x[%i, %j] : memref<4x8xf32>
// CHECK-NEXT:      loop.store %a, %x[%i, %j] : memref<4x8xf32>
func.func @two(%x: memref<4x8xf32>) {
  tile.launch (%i = 4 : thread, %j = 8 : thread) {
    %a = loop.load %x[%i, %j] : memref<4x8xf32>
    loop.store %a, %x[%i, %j] : memref<4x8xf32>
  }
  func.return
}

// -----

// The memory of a combine over CTAs stands before the launch.
// CHECK-LABEL: func.func @ticket
// CHECK-NEXT:    %sum_part = memref.alloc() : memref<1x4x32xf32>
// CHECK-NEXT:    %turns = kernel.counters
// CHECK-NEXT:    tile.launch (%s = 4 : block, %thread = 32 : thread) attributes {expanded} {
// CHECK:           kernel.ticket %turns
func.func @ticket(%x: memref<4x32xf32>, %out: memref<32xf32>) {
  tile.launch (%s = 4 : block, %t = 32 : thread) {
    %a = loop.load %x[%s, %t] : memref<4x32xf32>
    %sum = tile.combine {arith.addf} %a over (%s) : f32
    loop.store %sum, %out[%t] : memref<32xf32>
  }
  func.return
}

// -----

// A launch whose threads own nothing is one without CTAs.
// CHECK-LABEL: func.func @nothing
// CHECK:         tile.launch (%b = 2 : block, %none = 0 : block, %thread = 4 : thread) attributes {expanded} {
func.func @nothing(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%b = 2 : block, %t = 4 : thread, %r = 0 : register) {
    loop.store %one, %x[%b * 4 + %t] : memref<8xf32>
  }
  func.return
}
