// RUN: deplodock-opt %s -p tileify -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP
// RUN: deplodock-opt %s -p tileify --split-input-file --check-semantics
// RUN: deplodock-opt %s -p tileify,tileify | diff - %t.once

// SKIP:      tileify skipped at @reads_back: %out is read after it was written, and launches alone order memory
// SKIP-NEXT: tileify skipped at @launched: the kernel is a launch already
// SKIP-NEXT: tileify skipped at @left_out: the kernel's schedule leaves it out
// SKIP-NEXT: tileify skipped at @host: memref.alloc is host code, which a launch cannot hold

// Outer free loops become axes; the reduction stays.
// CHECK-LABEL: func.func @matmul(%x: memref<5x64xf32>, %w: memref<64x7xf32>, %out: memref<5x7xf32>) {
// CHECK-NEXT:    tile.launch (%[[M:.*]] = 5 : thread, %[[N:.*]] = 7 : thread) {
// CHECK-NEXT:      %[[ACC:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 64 : f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %x[%[[M]], %[[K]]] : memref<5x64xf32>
// CHECK-NEXT:        %[[B:.*]] = loop.load %w[%[[K]], %[[N]]] : memref<64x7xf32>
// CHECK-NEXT:        %[[P:.*]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:        loop.yield %[[P]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %[[ACC]], %out[%[[M]], %[[N]]] : memref<5x7xf32>
// CHECK-NEXT:    }
func.func @matmul(%x: memref<5x64xf32>, %w: memref<64x7xf32>, %out: memref<5x7xf32>) {
  loop.for %m = 0 to 5 {
    loop.for %n = 0 to 7 {
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %x[%m, %k] : memref<5x64xf32>
        %b = loop.load %w[%k, %n] : memref<64x7xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<5x7xf32>
    }
  }
  func.return
}

// -----

// A loop beside another one is not lifted: the other would run once for each of its coordinates.
// CHECK-LABEL: func.func @siblings(%x: memref<5x6xf32>, %y: memref<5x6xf32>, %z: memref<5x7xf32>) {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 5 : thread) {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to 6 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %x[%[[I]], %[[J]]] : memref<5x6xf32>
// CHECK-NEXT:        loop.store %[[A]], %y[%[[I]], %[[J]]] : memref<5x6xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.for %[[J_1:.*]] = 0 to 7 {
// CHECK-NEXT:        %[[C:.*]] = loop.load %x[%[[I]], 0] : memref<5x6xf32>
// CHECK-NEXT:        loop.store %[[C]], %z[%[[I]], %[[J_1]]] : memref<5x7xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @siblings(%x: memref<5x6xf32>, %y: memref<5x6xf32>, %z: memref<5x7xf32>) {
  loop.for %i = 0 to 5 {
    loop.for %j = 0 to 6 {
      %a = loop.load %x[%i, %j] : memref<5x6xf32>
      loop.store %a, %y[%i, %j] : memref<5x6xf32>
    }
    loop.for %j = 0 to 7 {
      %c = loop.load %x[%i, 0] : memref<5x6xf32>
      loop.store %c, %z[%i, %j] : memref<5x7xf32>
    }
  }
  func.return
}

// -----

// Reads and scalars beside a loop do not keep it from being lifted.
// CHECK-LABEL: func.func @reads(%x: memref<5xf32>, %y: memref<5x6xf32>) {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 5 : thread, %[[J:.*]] = 6 : thread) {
// CHECK-NEXT:      %[[A:.*]] = loop.load %x[%[[I]]] : memref<5xf32>
// CHECK-NEXT:      %[[B:.*]] = arith.mulf %[[A]], %[[A]] : f32
// CHECK-NEXT:      loop.store %[[B]], %y[%[[I]], %[[J]]] : memref<5x6xf32>
// CHECK-NEXT:    }
func.func @reads(%x: memref<5xf32>, %y: memref<5x6xf32>) {
  loop.for %i = 0 to 5 {
    %a = loop.load %x[%i] : memref<5xf32>
    %b = arith.mulf %a, %a : f32
    loop.for %j = 0 to 6 {
      loop.store %b, %y[%i, %j] : memref<5x6xf32>
    }
  }
  func.return
}

// -----

// A loop whose bound depends on an axis stays.
// CHECK-LABEL: func.func @triangle(%x: memref<5x5xf32>) {
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 5 : thread) {
// CHECK-NEXT:      loop.for %[[J:.*]] = 0 to min(%[[I]] + 5, 5) {
// CHECK-NEXT:        loop.store %[[ONE]], %x[%[[I]], %[[J]]] : memref<5x5xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:    }
func.func @triangle(%x: memref<5x5xf32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 5 {
    loop.for %j = 0 to min(%i + 5, 5) {
      loop.store %one, %x[%i, %j] : memref<5x5xf32>
    }
  }
  func.return
}

// -----

// So does a loop that writes what is read before it, also among siblings of one extent.
// CHECK-LABEL: func.func @overwrites(
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 5 : thread) {
// CHECK-NEXT:      loop.for
// CHECK:           loop.for
func.func @overwrites(%x: memref<5x8xf32>, %y: memref<5x8xf32>, %out: memref<5x8xf32>) {
  loop.for %i = 0 to 5 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, 7 - %j] : memref<5x8xf32>
      loop.store %v, %out[%i, %j] : memref<5x8xf32>
    }
    loop.for %j = 0 to 8 {
      %v = loop.load %y[%i, %j] : memref<5x8xf32>
      loop.store %v, %x[%i, %j] : memref<5x8xf32>
    }
  }
  func.return
}

// -----

// Without a free loop the launch has no axes.
// CHECK-LABEL: func.func @total(%x: memref<9xf32>, %out: memref<f32>) {
// CHECK-NEXT:    tile.launch () {
// CHECK-NEXT:      %[[ACC:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 9 : f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %x[%[[K]]] : memref<9xf32>
// CHECK-NEXT:        loop.yield %[[A]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %[[ACC]], %out[] : memref<f32>
// CHECK-NEXT:    }
func.func @total(%x: memref<9xf32>, %out: memref<f32>) {
  %acc = loop.reduce {arith.addf} %k = 0 to 9 : f32 {
    %a = loop.load %x[%k] : memref<9xf32>
    loop.yield %a : f32
  }
  loop.store %acc, %out[] : memref<f32>
  func.return
}

// -----

// The points of a launch do not see what others of it write.
// CHECK-LABEL: func.func @reads_back
func.func @reads_back(%x: memref<8xf32>, %out: memref<8xf32>, %y: memref<8xf32>) {
  loop.for %i = 0 to 8 {
    %a = loop.load %x[%i] : memref<8xf32>
    loop.store %a, %out[%i] : memref<8xf32>
    %b = loop.load %out[%i] : memref<8xf32>
    loop.store %b, %y[%i] : memref<8xf32>
  }
  func.return
}

// -----

// A launch is left alone.
// CHECK-LABEL: func.func @launched(%x: memref<8xf32>) {
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 8 : thread) {
// CHECK-NEXT:      loop.store %[[ONE]], %x[%[[I]]] : memref<8xf32>
// CHECK-NEXT:    }
func.func @launched(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 8 : thread) {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}

// -----

// So is a kernel whose schedule does not name the rule.
// CHECK-LABEL: func.func @left_out(%x: memref<8xf32>) attributes {deplodock.schedule = "stage-inputs"} {
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 8 {
// CHECK-NEXT:      loop.store %[[ONE]], %x[%[[I]]] : memref<8xf32>
// CHECK-NEXT:    }
func.func @left_out(%x: memref<8xf32>) attributes {deplodock.schedule = "stage-inputs"} {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 8 {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}

// -----

// And host code.
// CHECK-LABEL: func.func @host() -> memref<8xf32> {
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    %[[X:.*]] = memref.alloc() : memref<8xf32>
// CHECK-NEXT:    loop.for %[[I:.*]] = 0 to 8 {
// CHECK-NEXT:      loop.store %[[ONE]], %[[X]][%[[I]]] : memref<8xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %[[X]] : memref<8xf32>
func.func @host() -> memref<8xf32> {
  %one = arith.constant 1.0 : f32
  %x = memref.alloc() : memref<8xf32>
  loop.for %i = 0 to 8 {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return %x : memref<8xf32>
}

// -----

// A constant may stand anywhere before its use; launches come after all of them.
// CHECK-LABEL: func.func @late_constant(%x: memref<f32>, %out: memref<f32>) {
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    tile.launch () {
func.func @late_constant(%x: memref<f32>, %out: memref<f32>) {
  %v = loop.load %x[] : memref<f32>
  %one = arith.constant 1.0 : f32
  %y = arith.addf %v, %one : f32
  loop.store %y, %out[] : memref<f32>
  func.return
}
