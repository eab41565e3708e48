// Every way in which threads scan gives what the evaluator does.
// RUN: deplodock-opt %s -p materialize,place-barriers --check-semantics --split-input-file
// RUN: deplodock-opt %s -p materialize --split-input-file | filecheck %s

// A thread carries the fold on through its loop.
// CHECK-LABEL: kernel.func @column
// CHECK:         loop.store %{{.*}}, %[[ACC:.*]][] : memref<f32, #tile.memory<register>>
// CHECK-NEXT:    loop.for %k = 0 to 5 {
// CHECK-NEXT:      %[[V:.*]] = loop.load %x[%k, %c]
// CHECK:           %[[OLD:.*]] = loop.load %[[ACC]][]
// CHECK-NEXT:      %[[NEW:.*]] = arith.addf %[[OLD]], %[[V]] : f32
// CHECK-NOT:     kernel.shuffle
func.func @column(%x: memref<5x7xf32>, %out: memref<5x7xf32>) {
  tile.launch (%c = 7 : thread) {
    loop.for %k = 0 to 5 {
      %v = loop.load %x[%k, %c] : memref<5x7xf32>
      %s = loop.scan {arith.addf} %v along (%k) : f32
      loop.store %s, %out[%k, %c] : memref<5x7xf32>
    }
  }
  func.return
}

// -----

// Lanes take in those before them; the last lane of each group carries on.
// CHECK-LABEL: kernel.func @lanes
// CHECK:         kernel.shuffle_up %{{.*}}, 1 : i64
// CHECK:         kernel.shuffle_up %{{.*}}, 2 : i64
// CHECK:         kernel.shuffle_up %{{.*}}, 4 : i64
// CHECK-NOT:     kernel.shuffle_up %{{.*}}, 8
// CHECK:         kernel.shuffle_last %{{.*}}, 8 : i64
func.func @lanes(%x: memref<4x20xi64>, %out: memref<4x20xi64>) {
  tile.launch (%r = 4 : thread, %t = 8 : thread, %v = 2 : register) {
    loop.for %i = 0 to 2 {
      %k = loop.index [%i * 16 + %t * 2 + %v]
      loop.where %k < 20
      %a = loop.load %x[%r, %k] : memref<4x20xi64>
      %s = loop.scan {arith.addi} %a along (%i, %t, %v) exclusive : i64
      loop.store %s, %out[%r, %k] : memref<4x20xi64>
    }
  }
  func.return
}

// -----

// Warps publish their totals; the order of the combiner's operands counts.
// CHECK-LABEL: kernel.func @warps
// CHECK:         kernel.alloc : memref<2x4xi32, #tile.memory<shared>>
// CHECK:         loop.guard where (%thread mod 32 < 1) {
func.func @warps(%x: memref<2x290xi32>, %out: memref<2x290xi32>) {
  tile.launch (%r = 2 : thread, %i = 2 : register, %t = 64 : thread, %v = 3 : register) {
    %k = loop.index [%i * 192 + %t * 3 + %v]
    loop.where %k < 290
    %a = loop.load %x[%r, %k] : memref<2x290xi32>
    %two = arith.constant 2 : i32
    %p, %q = loop.scan %two, %a along (%i, %t, %v) : i32, i32 combine (%a0: i32, %b0: i32, %a1: i32, %b1: i32) identity [1 : i32, 0 : i32] {
      %c = arith.muli %a0, %a1 : i32
      %d = arith.muli %b0, %a1 : i32
      %e = arith.addi %d, %b1 : i32
      loop.yield %c, %e : i32, i32
    }
    loop.store %q, %out[%r, %k] : memref<2x290xi32>
  }
  func.return
}

// -----

// Threads that are no run of lanes go through shared memory.
// CHECK-LABEL: kernel.func @free
// CHECK-NOT:     kernel.shuffle
func.func @free(%x: memref<30x5xf32>, %out: memref<30x5xf32>) {
  tile.launch (%u = 2 : thread, %t = 3 : thread, %c = 5 : thread) {
    loop.for %i = 0 to 5 {
      %k = loop.index [%i * 6 + %u * 3 + %t]
      %a = loop.load %x[%k, %c] : memref<30x5xf32>
      %s = loop.scan {arith.maximumf} %a along (%i, %u, %t) : f32
      loop.store %s, %out[%k, %c] : memref<30x5xf32>
    }
  }
  func.return
}

// -----

// What earlier steps carry comes in front of what the lanes of a group fold.
// CHECK-LABEL: kernel.func @ordered
// CHECK:         kernel.shuffle_last %{{.*}}, 8 : i32
func.func @ordered(%x: memref<4x24xi32>, %out: memref<4x24xi32>) {
  tile.launch (%r = 4 : thread, %t = 8 : thread) {
    loop.for %i = 0 to 3 {
      %k = loop.index [%i * 8 + %t]
      %a = loop.load %x[%r, %k] : memref<4x24xi32>
      %two = arith.constant 2 : i32
      %p, %q = loop.scan %two, %a along (%i, %t) : i32, i32 combine (%a0: i32, %b0: i32, %a1: i32, %b1: i32) identity [1 : i32, 0 : i32] {
        %c = arith.muli %a0, %a1 : i32
        %d = arith.muli %b0, %a1 : i32
        %e = arith.addi %d, %b1 : i32
        loop.yield %c, %e : i32, i32
      }
      loop.store %q, %out[%r, %k] : memref<4x24xi32>
    }
  }
  func.return
}

// -----

// Those of whole warps go through shared memory, too, if neighbours along the axis are no neighbours in a warp.
// CHECK-LABEL: kernel.func @apart
// CHECK-NOT:     kernel.shuffle
func.func @apart(%x: memref<4x8xi32>, %out: memref<4x8xi32>) {
  tile.launch (%t = 4 : thread, %c = 8 : thread) {
    %a = loop.load %x[%t, %c] : memref<4x8xi32>
    %s = loop.scan {arith.addi} %a along (%t) : i32
    loop.store %s, %out[%t, %c] : memref<4x8xi32>
  }
  func.return
}

// -----

// So do groups of which a warp holds a part, with others beside it.
// CHECK-LABEL: kernel.func @uneven
// CHECK-NOT:     kernel.shuffle
func.func @uneven(%x: memref<2x48xi32>, %out: memref<2x48xi32>) {
  tile.launch (%r = 2 : thread, %t = 48 : thread) {
    %a = loop.load %x[%r, %t] : memref<2x48xi32>
    %s = loop.scan {arith.addi} %a along (%t) : i32
    loop.store %s, %out[%r, %t] : memref<2x48xi32>
  }
  func.return
}

// -----

// So do groups of which the last warp holds too few threads for a shuffle.
// CHECK-LABEL: kernel.func @partial
// CHECK-NOT:     kernel.shuffle
func.func @partial(%x: memref<3x8xi32>, %out: memref<3x8xi32>) {
  tile.launch (%r = 3 : thread, %t = 8 : thread) {
    %a = loop.load %x[%r, %t] : memref<3x8xi32>
    %s = loop.scan {arith.addi} %a along (%t) : i32
    loop.store %s, %out[%r, %t] : memref<3x8xi32>
  }
  func.return
}

// -----

// Each register along another axis has a scan of its own.
// CHECK-LABEL: kernel.func @kept
func.func @kept(%x: memref<9x8xf32>, %out: memref<9x8xf32>) {
  tile.launch (%c = 2 : thread, %r = 4 : register) {
    loop.for %ko = 0 to 3 {
      loop.for %ki = 0 to 3 {
        %a = loop.load %x[%ko * 3 + %ki, %c * 4 + %r] : memref<9x8xf32>
        %s = loop.scan {arith.addf} %a along (%ko, %ki) : f32
        loop.store %s, %out[%ko * 3 + %ki, %c * 4 + %r] : memref<9x8xf32>
      }
    }
  }
  func.return
}
