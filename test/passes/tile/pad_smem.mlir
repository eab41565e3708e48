// RUN: deplodock-opt %s -p pad-smem -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: deplodock-opt %s -p pad-smem,pad-smem --check-semantics 2>/dev/null | diff - %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP
// RUN: deplodock-opt %s -p 'pad-smem{pad=8}' 2>/dev/null | filecheck %s --check-prefix=GIVEN
// RUN: not deplodock-opt %s -p 'pad-smem{pad=0}' 2>&1 | filecheck %s --check-prefix=ZERO

// SKIP:      pad_smem skipped at @free: %x: no conflicts: 64 wavefronts of 64 ideal
// SKIP-NEXT: pad_smem skipped at @row: %x: its slab is a single row
// SKIP-NEXT: pad_smem skipped at @helpless: %x: no padding takes fewer than 8 wavefronts of 6 ideal
// SKIP-NEXT: pad_smem skipped at @budget: %x: 4 more elements a row exceed the shared memory of a CTA
// SKIP-NEXT: pad_smem skipped at @nothing: no slab is staged in shared memory; run stage-inputs first
// SKIP-NEXT: pad_smem skipped at @ring: the slabs are slots of a ring already; run pad-smem before pipeline-k-outer
// SKIP-NEXT: pad_smem skipped at @loops: no launch; run tileify first

// ZERO:   error: pass 'pad-smem{pad=0}': the option pad must be a positive integer, got 0

// Lanes that read a column of 32 hit one bank; rows of 36 spread them over 8 banks and leave the copies 16 bytes wide.
// CHECK-LABEL: func.func @columns
// CHECK:         tile.stage %x[d0, d1] : memref<32x32xf32> to memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
// CHECK:         loop.load %{{.*}}[%{{.*}}, %{{.*}}] : memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
// GIVEN-LABEL: func.func @columns
// GIVEN:         tile.stage %x[d0, d1] : memref<32x32xf32> to memref<32x32xf32, strided<[40, 1]>, #tile.memory<shared>>
func.func @columns(%x: memref<32x32xf32>, %out: memref<32x32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0, d1] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    loop.for %i = 0 to 32 {
      %v = loop.load %s[%t, %i] : memref<32x32xf32, #tile.memory<shared>>
      loop.store %v, %out[%i, %t] : memref<32x32xf32>
    }
  }
  func.return
}

// Vectors of 16 bytes stay aligned.
// CHECK-LABEL: func.func @vectors
// CHECK:         memref<32x32xf32, strided<[36, 1]>, #tile.memory<shared>>
func.func @vectors(%x: memref<32x32xf32>, %out: memref<32x32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread, %r = 4 : register) {
    %s = tile.stage %x[d0, d1] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    loop.for %i = 0 to 8 {
      %v = loop.load %s[%t, %i * 4 + %r] : memref<32x32xf32, #tile.memory<shared>>
      loop.store %v, %out[%i * 4 + %r, %t] : memref<32x32xf32>
    }
  }
  func.return
}

// The copies of a transposed slab collide, its readers do not.
// CHECK-LABEL: func.func @transposed
// CHECK:         tile.stage %x[d1, d0] : memref<128x32xf32> to memref<32x128xf32, strided<[132, 1]>, #tile.memory<shared>>
func.func @transposed(%x: memref<128x32xf32>, %out: memref<32x128xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread, %r = 4 : register) {
    %s = tile.stage %x[d1, d0] : memref<128x32xf32> to memref<32x128xf32, #tile.memory<shared>>
    loop.for %i = 0 to 32 {
      %v = loop.load %s[%i, %t * 4 + %r] : memref<32x128xf32, #tile.memory<shared>>
      loop.store %v, %out[%i, %t * 4 + %r] : memref<32x128xf32>
    }
  }
  func.return
}

// The rows are those of the last two dimensions.
// CHECK-LABEL: func.func @batch
// CHECK:         memref<2x32x32xf32, strided<[1152, 36, 1]>, #tile.memory<shared>>
func.func @batch(%x: memref<2x32x32xf32>, %out: memref<2x32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0, d1, d2] : memref<2x32x32xf32> to memref<2x32x32xf32, #tile.memory<shared>>
    loop.for %i = 0 to 2 {
      %v = loop.load %s[%i, %t, 0] : memref<2x32x32xf32, #tile.memory<shared>>
      loop.store %v, %out[%i, %t] : memref<2x32xf32>
    }
  }
  func.return
}

// Without conflicts a slab is padded only if that is asked for.
// CHECK-LABEL: func.func @free
// CHECK:         memref<32x32xf32, #tile.memory<shared>>
// GIVEN-LABEL: func.func @free
// GIVEN:         memref<32x32xf32, strided<[40, 1]>, #tile.memory<shared>>
func.func @free(%x: memref<32x32xf32>, %out: memref<32x32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0, d1] : memref<32x32xf32> to memref<32x32xf32, #tile.memory<shared>>
    loop.for %i = 0 to 32 {
      %v = loop.load %s[%i, %t] : memref<32x32xf32, #tile.memory<shared>>
      loop.store %v, %out[%i, %t] : memref<32x32xf32>
    }
  }
  func.return
}

func.func @row(%x: memref<64xf32>, %out: memref<32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0] : memref<64xf32> to memref<64xf32, #tile.memory<shared>>
    %v = loop.load %s[%t * 2] : memref<64xf32, #tile.memory<shared>>
    loop.store %v, %out[%t] : memref<32xf32>
  }
  func.return
}

// Lanes two apart in one row collide whatever the distance of rows.
func.func @helpless(%x: memref<2x64xf32>, %out: memref<2x32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[d0, d1] : memref<2x64xf32> to memref<2x64xf32, #tile.memory<shared>>
    loop.for %i = 0 to 2 {
      %v = loop.load %s[%i, %t * 2] : memref<2x64xf32, #tile.memory<shared>>
      loop.store %v, %out[%i, %t] : memref<2x32xf32>
    }
  }
  func.return
}

// Its slab fills shared memory but for a few bytes.
func.func @budget(%x: memref<1816x32xf32>, %out: memref<1816xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 908 : thread, %i = 2 : register) {
    %s = tile.stage %x[d0, d1] : memref<1816x32xf32> to memref<1816x32xf32, #tile.memory<shared>>
    %v = loop.load %s[%t * 2 + %i, 0] : memref<1816x32xf32, #tile.memory<shared>>
    loop.store %v, %out[%t * 2 + %i] : memref<1816xf32>
  }
  func.return
}

func.func @nothing(%x: memref<32xf32>, %out: memref<32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %v = loop.load %x[%t] : memref<32xf32>
    loop.store %v, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @ring(%x: memref<256xf32>, %out: memref<32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  tile.launch (%t = 32 : thread) {
    %ring = tile.ring 2
    %s = tile.alloc : memref<2x32xf32, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      tile.copy %x[%k * 32 + d0] to %s at %ring[%k] : memref<256xf32> to memref<2x32xf32, #tile.memory<shared>>
      tile.wait %ring[%k]
      %v = loop.load %s[%k mod 2, %t] : memref<2x32xf32, #tile.memory<shared>>
      tile.release %ring[%k]
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<32xf32>
  }
  func.return
}

func.func @loops(%x: memref<32xf32>, %out: memref<32xf32>) attributes {deplodock.schedule = "pad-smem"} {
  loop.for %i = 0 to 32 {
    %v = loop.load %x[%i] : memref<32xf32>
    loop.store %v, %out[%i] : memref<32xf32>
  }
  func.return
}
