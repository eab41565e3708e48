// RUN: deplodock-opt %s -p tileify,cooperative-reduce,blockify-launch -o %t.once 2>%t.skips && filecheck %s --input-file %t.once
// RUN: filecheck %s --input-file %t.skips --check-prefix=SKIP
// RUN: deplodock-opt %s -p tileify,cooperative-reduce,blockify-launch --split-input-file --check-semantics
// RUN: deplodock-opt %s -p tileify,cooperative-reduce,blockify-launch,blockify-launch | diff - %t.once
// RUN: not deplodock-opt %s -p 'tileify,blockify-launch{threads=many}' 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: not deplodock-opt %s -p 'blockify-launch{m=8 n=8}' 2>&1 | filecheck %s --check-prefix=NONE

// SKIP:     blockify_launch skipped at @small: the launch fits one CTA
// SKIP:     blockify_launch skipped at @not_a_contraction: m is for contractions, and the launch has none; give threads
// SKIP:     blockify_launch skipped at @a_contraction: threads is for launches without a contraction, and the launch has one; give m, n, raster
// SKIP:     blockify_launch skipped at @whole: the launch has no axes
// SKIP:     blockify_launch skipped at @blocks: the launch has block axes already
// SKIP:     blockify_launch skipped at @staged: inputs are staged for the whole launch; blockify-launch runs before stage-inputs
// SKIP:     blockify_launch skipped at @half: threads is for launches without a contraction, and the launch has one; give m, n, raster
// TYPE:     error: pass 'blockify-launch{threads="many"}': the option threads must be a positive integer, got many
// NONE:     error: blockify-launch{m=8 n=8} applies to no kernel: @matmul: no launch; run tileify first

// A contraction's rows and columns become tiles, its batch axis blocks.
// CHECK-LABEL: func.func @matmul(%x: memref<3x20x6xf32>, %w: memref<3x6x32xf32>, %out: memref<3x20x32xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=8 n=16}"} {
// CHECK-NEXT:    tile.launch (%[[B:.*]] = 3 : block, %[[M_B:.*]] = 3 : block, %[[N_B:.*]] = 2 : block, %[[M_T:.*]] = 8 : thread, %[[N_T:.*]] = 16 : thread) {
// CHECK-NEXT:      %[[N:.*]] = loop.index [%[[N_B]] * 16 + %[[N_T]]]
// CHECK-NEXT:      %[[M:.*]] = loop.index [%[[M_B]] * 8 + %[[M_T]]]
// CHECK-NEXT:      loop.where %[[M]] < 20
// CHECK-NEXT:      %[[ACC:.*]] = loop.reduce {arith.addf} %[[K:.*]] = 0 to 6 : f32 {
// CHECK-NEXT:        %[[A:.*]] = loop.load %x[%[[B]], %[[M]], %[[K]]] : memref<3x20x6xf32>
// CHECK-NEXT:        %[[C:.*]] = loop.load %w[%[[B]], %[[K]], %[[N]]] : memref<3x6x32xf32>
// CHECK-NEXT:        %[[P:.*]] = arith.mulf %[[A]], %[[C]] : f32
// CHECK-NEXT:        loop.yield %[[P]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      loop.store %[[ACC]], %out[%[[B]], %[[M]], %[[N]]] : memref<3x20x32xf32>
// CHECK-NEXT:    }
func.func @matmul(%x: memref<3x20x6xf32>, %w: memref<3x6x32xf32>, %out: memref<3x20x32xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=8 n=16}"} {
  loop.for %b = 0 to 3 {
    loop.for %m = 0 to 20 {
      loop.for %n = 0 to 32 {
        %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
          %a = loop.load %x[%b, %m, %k] : memref<3x20x6xf32>
          %c = loop.load %w[%b, %k, %n] : memref<3x6x32xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<3x20x32xf32>
      }
    }
  }
  func.return
}

// -----

// With a raster the tiles of 6 row tiles that start after each other are 3 rows of a column.
// CHECK-LABEL: func.func @grouped(
// CHECK-NEXT:    tile.launch (%[[B:.*]] = 3 : block, %[[M_G:.*]] = 2 : block, %[[N_B:.*]] = 2 : block, %[[M_B:.*]] = 3 : block, %[[M_T:.*]] = 4 : thread, %[[N_T:.*]] = 16 : thread) {
// CHECK-NEXT:      %[[M_TILE:.*]] = loop.index [%[[M_G]] * 3 + %[[M_B]]]
// CHECK-NEXT:      %[[N:.*]] = loop.index [%[[N_B]] * 16 + %[[N_T]]]
// CHECK-NEXT:      %[[M:.*]] = loop.index [%[[M_TILE]] * 4 + %[[M_T]]]
func.func @grouped(%x: memref<3x24x6xf32>, %w: memref<3x6x32xf32>, %out: memref<3x24x32xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=4 n=16 raster=4}"} {
  loop.for %b = 0 to 3 {
    loop.for %m = 0 to 24 {
      loop.for %n = 0 to 32 {
        %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
          %a = loop.load %x[%b, %m, %k] : memref<3x24x6xf32>
          %c = loop.load %w[%b, %k, %n] : memref<3x6x32xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<3x24x32xf32>
      }
    }
  }
  func.return
}

// -----

// Where all row tiles are one group, the columns go first.
// CHECK-LABEL: func.func @rows_last(
// CHECK-NEXT:    tile.launch (%[[N_B:.*]] = 2 : block, %[[M_B:.*]] = 5 : block, %[[M_T:.*]] = 4 : thread, %[[N_T:.*]] = 16 : thread) {
func.func @rows_last(%x: memref<20x6xf32>, %w: memref<6x32xf32>, %out: memref<20x32xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=4 n=16 raster=8}"} {
  loop.for %m = 0 to 20 {
    loop.for %n = 0 to 32 {
      %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
        %a = loop.load %x[%m, %k] : memref<20x6xf32>
        %c = loop.load %w[%k, %n] : memref<6x32xf32>
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<20x32xf32>
    }
  }
  func.return
}

// -----

// Other kernels fill a CTA, the innermost axes first.
// CHECK-LABEL: func.func @copy(%x: memref<100x48xf32>, %out: memref<100x48xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 100 : block, %[[J:.*]] = 48 : thread) {
// CHECK-NEXT:      %[[V:.*]] = loop.load %x[%[[I]], %[[J]]] : memref<100x48xf32>
// CHECK-NEXT:      loop.store %[[V]], %out[%[[I]], %[[J]]] : memref<100x48xf32>
// CHECK-NEXT:    }
func.func @copy(%x: memref<100x48xf32>, %out: memref<100x48xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %i = 0 to 100 {
    loop.for %j = 0 to 48 {
      %v = loop.load %x[%i, %j] : memref<100x48xf32>
      loop.store %v, %out[%i, %j] : memref<100x48xf32>
    }
  }
  func.return
}

// -----

// Points beyond an extent that the CTA does not divide are inactive.
// CHECK-LABEL: func.func @wide(%x: memref<3x100xf32>, %out: memref<3x100xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
// CHECK-NEXT:    tile.launch (%[[I:.*]] = 3 : block, %[[J_B:.*]] = 2 : block, %[[J_T:.*]] = 64 : thread) {
// CHECK-NEXT:      %[[J:.*]] = loop.index [%[[J_B]] * 64 + %[[J_T]]]
// CHECK-NEXT:      loop.where %[[J]] < 100
// CHECK-NEXT:      %[[V:.*]] = loop.load %x[%[[I]], %[[J]]] : memref<3x100xf32>
// CHECK-NEXT:      loop.store %[[V]], %out[%[[I]], %[[J]]] : memref<3x100xf32>
// CHECK-NEXT:    }
func.func @wide(%x: memref<3x100xf32>, %out: memref<3x100xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 100 {
      %v = loop.load %x[%i, %j] : memref<3x100xf32>
      loop.store %v, %out[%i, %j] : memref<3x100xf32>
    }
  }
  func.return
}

// -----

// Rows that do not fit a CTA together are cut in blocks of about as many, here 6 of 11.
// CHECK-LABEL: func.func @even(
// CHECK-NEXT:    tile.launch (%{{.*}} = 2 : block, %{{.*}} = 6 : thread, %{{.*}} = 7 : thread) {
func.func @even(%x: memref<11x7xf32>, %out: memref<11x7xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %i = 0 to 11 {
    loop.for %j = 0 to 7 {
      %v = loop.load %x[%i, %j] : memref<11x7xf32>
      loop.store %v, %out[%i, %j] : memref<11x7xf32>
    }
  }
  func.return
}

// -----

// Threads that share a row stay in one CTA; rows fill what is left of it.
// CHECK-LABEL: func.func @rows(%x: memref<40x64xf32>, %out: memref<40xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=16},blockify-launch{threads=64}"} {
// CHECK-NEXT:    tile.launch (%[[ROW_B:.*]] = 10 : block, %[[ROW_T:.*]] = 4 : thread, %[[T:.*]] = 16 : thread) {
// CHECK-NEXT:      %[[ROW:.*]] = loop.index [%[[ROW_B]] * 4 + %[[ROW_T]]]
// CHECK-NEXT:      %[[SUM:.*]] = loop.reduce {arith.addf} %[[I:.*]] = 0 to 4 : f32 {
// CHECK-NEXT:        %[[K:.*]] = loop.index [%[[I]] * 16 + %[[T]]]
// CHECK-NEXT:        %[[V:.*]] = loop.load %x[%[[ROW]], %[[K]]] : memref<40x64xf32>
// CHECK-NEXT:        loop.yield %[[V]] : f32
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[SUM_1:.*]] = tile.combine {arith.addf} %[[SUM]] over (%[[T]]) : f32
// CHECK-NEXT:      loop.store %[[SUM_1]], %out[%[[ROW]]] : memref<40xf32>
// CHECK-NEXT:    }
func.func @rows(%x: memref<40x64xf32>, %out: memref<40xf32>) attributes {deplodock.schedule = "tileify,cooperative-reduce{threads=16},blockify-launch{threads=64}"} {
  loop.for %row = 0 to 40 {
    %sum = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %v = loop.load %x[%row, %k] : memref<40x64xf32>
      loop.yield %v : f32
    }
    loop.store %sum, %out[%row] : memref<40xf32>
  }
  func.return
}

// -----

// What fits one CTA stays one.
// CHECK-LABEL: func.func @small
func.func @small(%x: memref<4x8xf32>, %out: memref<4x8xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %i = 0 to 4 {
    loop.for %j = 0 to 8 {
      %v = loop.load %x[%i, %j] : memref<4x8xf32>
      loop.store %v, %out[%i, %j] : memref<4x8xf32>
    }
  }
  func.return
}

// -----

// Options of the other class of kernels.
// CHECK-LABEL: func.func @not_a_contraction
func.func @not_a_contraction(%x: memref<40x80xf32>, %out: memref<40x80xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=4}"} {
  loop.for %i = 0 to 40 {
    loop.for %j = 0 to 80 {
      %v = loop.load %x[%i, %j] : memref<40x80xf32>
      loop.store %v, %out[%i, %j] : memref<40x80xf32>
    }
  }
  func.return
}

// -----

// And the other way round.
// CHECK-LABEL: func.func @a_contraction
func.func @a_contraction(%x: memref<3x20x6xf32>, %w: memref<3x6x32xf32>, %out: memref<3x20x32xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %b = 0 to 3 {
    loop.for %m = 0 to 20 {
      loop.for %n = 0 to 32 {
        %acc = loop.reduce {arith.addf} %k = 0 to 6 : f32 {
          %a = loop.load %x[%b, %m, %k] : memref<3x20x6xf32>
          %c = loop.load %w[%b, %k, %n] : memref<3x6x32xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<3x20x32xf32>
      }
    }
  }
  func.return
}

// -----

// A launch without axes.
// CHECK-LABEL: func.func @whole
func.func @whole(%x: memref<9xf32>, %out: memref<f32>) attributes {deplodock.schedule = "tileify,blockify-launch"} {
  %acc = loop.reduce {arith.addf} %k = 0 to 9 : f32 {
    %a = loop.load %x[%k] : memref<9xf32>
    loop.yield %a : f32
  }
  loop.store %acc, %out[] : memref<f32>
  func.return
}

// -----

// A launch with blocks.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: memref<512x8xf32>) attributes {deplodock.schedule = "blockify-launch"} {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 512 : thread, %j = 8 : block) {
    loop.store %one, %x[%i, %j] : memref<512x8xf32>
  }
  func.return
}

// -----

// A slab is of the CTA that the launch has now.
// CHECK-LABEL: func.func @staged
func.func @staged(%x: memref<512xf32>, %out: memref<512xf32>) attributes {deplodock.schedule = "blockify-launch"} {
  tile.launch (%i = 512 : thread) {
    %xs = tile.stage %x[d0] : memref<512xf32> to memref<512xf32, #tile.memory<shared>>
    %v = loop.load %xs[-%i + 511] : memref<512xf32, #tile.memory<shared>>
    loop.store %v, %out[%i] : memref<512xf32>
  }
  func.return
}

// -----

// Long CTAs start first, and what is the same for all threads of a CTA is written over blocks.
// CHECK-LABEL: func.func @triangle
// CHECK-NEXT:    tile.launch (%[[M_B:.*]] = 6 : block, %[[B:.*]] = 2 : block, %[[M_T:.*]] = 16 : thread, %[[N:.*]] = 16 : thread) {
// CHECK-NEXT:      %[[LAST:.*]] = loop.index [%[[M_B]] * -1 + 5]
// CHECK-NEXT:      %[[M:.*]] = loop.index [%[[LAST]] * 16 + %[[M_T]]]
// CHECK-NEXT:      %{{.*}} = loop.reduce {arith.addf} %{{.*}} = 0 to %[[LAST]] floordiv 2 * 32 + 32 : f32 {
// CHECK-LABEL: func.func @tiles
// CHECK:         %[[N:.*]] = loop.index [%[[N_B:.*]] * 16 + %{{.*}}]
// CHECK-NEXT:    %[[M:.*]] = loop.index [%[[M_B:.*]] * 16 + %{{.*}}]
// CHECK-NEXT:    loop.where %[[N_B]] floordiv 2 < %[[M_B]] floordiv 2 + 1
func.func @triangle(%x: memref<2x96x96xf32>, %w: memref<2x96x16xf32>, %out: memref<2x96x16xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=16 n=16 raster=4}"} {
  loop.for %b = 0 to 2 {
    loop.for %m = 0 to 96 {
      loop.for %n = 0 to 16 {
        %acc = loop.reduce {arith.addf} %k = 0 to %m floordiv 32 * 32 + 32 : f32 {
          %a = loop.load %x[%b, %m, %k] : memref<2x96x96xf32>
          %c = loop.load %w[%b, %k, %n] : memref<2x96x16xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.store %acc, %out[%b, %m, %n] : memref<2x96x16xf32>
      }
    }
  }
  func.return
}
func.func @tiles(%x: memref<64x4xf32>, %w: memref<4x64xf32>, %out: memref<64x64xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=16 n=16 threads=64}"} {
  loop.for %m = 0 to 64 {
    loop.for %n = 0 to 64 {
      loop.where %n < %m floordiv 32 * 32 + 32
      %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
        %a = loop.load %x[%m, %k] : memref<64x4xf32>
        %c = loop.load %w[%k, %n] : memref<4x64xf32>
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<64x64xf32>
    }
  }
  loop.for %m = 0 to 64 {
    loop.for %n = 0 to 64 {
      loop.where %m floordiv 32 * 32 + 31 < %n
      %zero = arith.constant 0.0 : f32
      loop.store %zero, %out[%m, %n] : memref<64x64xf32>
    }
  }
  func.return
}

// -----

// A tile runs as many chunks as its last row needs, and no more than there are; each row counts its own. So does one CTA.
// CHECK-LABEL: func.func @uneven
// CHECK:         %[[M:.*]] = loop.index [%[[LAST:.*]] * 40 + %{{.*}}]
// CHECK:         %{{.*}} = loop.reduce {arith.addf} %[[KO:.*]] = 0 to min(%[[LAST]] * 5 floordiv 4 * 2 + 4, 6) : f32 {
// CHECK-NEXT:      %{{.*}} = loop.reduce {arith.addf} %[[KI:.*]] = 0 to 16 : f32 {
// CHECK-NEXT:        loop.where %[[KO]] < %[[M]] floordiv 32 * 2 + 2
// CHECK-LABEL: func.func @one_tile
// CHECK-NEXT:    tile.launch (%[[M:.*]] = 40 : thread, %{{.*}} = 16 : thread) {
// CHECK-NEXT:      %{{.*}} = loop.reduce {arith.addf} %[[KO:.*]] = 0 to 4 : f32 {
// CHECK-NEXT:        %{{.*}} = loop.reduce {arith.addf} %[[KI:.*]] = 0 to 16 : f32 {
// CHECK-NEXT:          loop.where %[[KO]] < %[[M]] floordiv 32 * 2 + 2
func.func @uneven(%x: memref<96x96xf32>, %w: memref<96x16xf32>, %out: memref<96x16xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=40 n=16}"} {
  loop.for %m = 0 to 96 {
    loop.for %n = 0 to 16 {
      %acc = loop.reduce {arith.addf} %ko = 0 to %m floordiv 32 * 2 + 2 : f32 {
        %sum = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
          %a = loop.load %x[%m, %ko * 16 + %ki] : memref<96x96xf32>
          %c = loop.load %w[%ko * 16 + %ki, %n] : memref<96x16xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.yield %sum : f32
      }
      loop.store %acc, %out[%m, %n] : memref<96x16xf32>
    }
  }
  func.return
}
func.func @one_tile(%x: memref<40x64xf32>, %w: memref<64x16xf32>, %out: memref<40x16xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{m=64 n=16}"} {
  loop.for %m = 0 to 40 {
    loop.for %n = 0 to 16 {
      %acc = loop.reduce {arith.addf} %ko = 0 to %m floordiv 32 * 2 + 2 : f32 {
        %sum = loop.reduce {arith.addf} %ki = 0 to 16 : f32 {
          %a = loop.load %x[%m, %ko * 16 + %ki] : memref<40x64xf32>
          %c = loop.load %w[%ko * 16 + %ki, %n] : memref<64x16xf32>
          %p = arith.mulf %a, %c : f32
          loop.yield %p : f32
        }
        loop.yield %sum : f32
      }
      loop.store %acc, %out[%m, %n] : memref<40x16xf32>
    }
  }
  func.return
}

// -----

// What a launch lacks is told, not that another has nothing to do.
func.func @half(%x: memref<64x4xf32>, %y: memref<8xf32>, %out: memref<64x64xf32>) attributes {deplodock.schedule = "tileify,blockify-launch{threads=64}"} {
  loop.for %i = 0 to 8 {
    %v = loop.load %x[%i, 0] : memref<64x4xf32>
    loop.store %v, %y[%i] : memref<8xf32>
  }
  loop.for %m = 0 to 64 {
    loop.for %n = 0 to 64 {
      %acc = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
        %a = loop.load %x[%m, %k] : memref<64x4xf32>
        %c = loop.load %x[%n, %k] : memref<64x4xf32>
        %p = arith.mulf %a, %c : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<64x64xf32>
    }
  }
  func.return
}
