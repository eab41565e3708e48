// RUN: deplodock-opt %s -p snake-register-tile --split-input-file | filecheck %s
// RUN: deplodock-opt %s -p snake-register-tile,snake-register-tile --split-input-file | filecheck %s

// The second row of each pair takes the columns, both loops of them, from the last to the first.
// CHECK-LABEL: kernel.func @tile
//       CHECK:   loop.for %[[RO:.*]] = 0 to 3 unroll {
//  CHECK-NEXT:     loop.for %[[PAIR:.*]] = 0 to 2 unroll {
//  CHECK-NEXT:       %[[EVEN:.*]] = loop.index [%[[PAIR]] * 2]
//  CHECK-NEXT:       loop.for %[[NO:.*]] = 0 to 2 unroll {
//  CHECK-NEXT:         loop.for %[[NV:.*]] = 0 to 4 unroll {
//  CHECK-NEXT:           %{{.*}} = loop.load %a[%[[RO]], %[[EVEN]]]
//  CHECK-NEXT:           %{{.*}} = loop.load %b[%[[NO]], %[[NV]]]
//       CHECK:           loop.store %{{.*}}, %acc[%[[RO]], %[[EVEN]], %[[NO]], %[[NV]]]
//       CHECK:       %[[ODD:.*]] = loop.index [%[[PAIR]] * 2 + 1]
//  CHECK-NEXT:       loop.for %[[NO:.*]] = 0 to 2 unroll {
//  CHECK-NEXT:         %[[NOR:.*]] = loop.index [%[[NO]] * -1 + 1]
//  CHECK-NEXT:         loop.for %[[NV:.*]] = 0 to 4 unroll {
//  CHECK-NEXT:           %[[NVR:.*]] = loop.index [%[[NV]] * -1 + 3]
//  CHECK-NEXT:           %{{.*}} = loop.load %a[%[[RO]], %[[ODD]]]
//  CHECK-NEXT:           %{{.*}} = loop.load %b[%[[NOR]], %[[NVR]]]
//       CHECK:           loop.store %{{.*}}, %acc[%[[RO]], %[[ODD]], %[[NOR]], %[[NVR]]]
kernel.func @tile() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<3x4xf32, #tile.memory<register>>
  %b = kernel.alloc : memref<2x4xf32, #tile.memory<register>>
  %acc = kernel.alloc : memref<3x4x2x4xf32, #tile.memory<register>>
  loop.for %ro = 0 to 3 unroll {
    loop.for %rv = 0 to 4 unroll {
      loop.for %no = 0 to 2 unroll {
        loop.for %nv = 0 to 4 unroll {
          %x = loop.load %a[%ro, %rv] : memref<3x4xf32, #tile.memory<register>>
          %w = loop.load %b[%no, %nv] : memref<2x4xf32, #tile.memory<register>>
          %c = loop.load %acc[%ro, %rv, %no, %nv] : memref<3x4x2x4xf32, #tile.memory<register>>
          %s = math.fma %x, %w, %c : f32
          loop.store %s, %acc[%ro, %rv, %no, %nv] : memref<3x4x2x4xf32, #tile.memory<register>>
        }
      }
    }
  }
}

// -----

// An odd number of rows, a single row, factors that both vary along the rows, and sums over the columns stay as they are.
// CHECK-LABEL: kernel.func @others
//   CHECK-NOT:   loop.index
kernel.func @others() blocks(%block = 1) threads(%thread = 32) {
  %a = kernel.alloc : memref<3xf32, #tile.memory<register>>
  %b = kernel.alloc : memref<4xf32, #tile.memory<register>>
  %d = kernel.alloc : memref<3x4xf32, #tile.memory<register>>
  %acc = kernel.alloc : memref<3x4xf32, #tile.memory<register>>
  loop.for %i = 0 to 3 unroll {
    loop.for %j = 0 to 4 unroll {
      %x = loop.load %a[%i] : memref<3xf32, #tile.memory<register>>
      %w = loop.load %b[%j] : memref<4xf32, #tile.memory<register>>
      %c = loop.load %acc[%i, %j] : memref<3x4xf32, #tile.memory<register>>
      %s = math.fma %x, %w, %c : f32
      loop.store %s, %acc[%i, %j] : memref<3x4xf32, #tile.memory<register>>
    }
  }
  loop.for %j = 0 to 4 unroll {
    %x = loop.load %a[0] : memref<3xf32, #tile.memory<register>>
    %w = loop.load %b[%j] : memref<4xf32, #tile.memory<register>>
    %c = loop.load %acc[0, %j] : memref<3x4xf32, #tile.memory<register>>
    %s = math.fma %x, %w, %c : f32
    loop.store %s, %acc[0, %j] : memref<3x4xf32, #tile.memory<register>>
  }
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 4 unroll {
      %x = loop.load %a[%i] : memref<3xf32, #tile.memory<register>>
      %w = loop.load %d[%i, %j] : memref<3x4xf32, #tile.memory<register>>
      %c = loop.load %acc[%i, %j] : memref<3x4xf32, #tile.memory<register>>
      %s = math.fma %x, %w, %c : f32
      loop.store %s, %acc[%i, %j] : memref<3x4xf32, #tile.memory<register>>
    }
  }
  loop.for %i = 0 to 2 unroll {
    loop.for %j = 0 to 4 unroll {
      %x = loop.load %a[%i] : memref<3xf32, #tile.memory<register>>
      %w = loop.load %b[%j] : memref<4xf32, #tile.memory<register>>
      %c = loop.load %acc[%i, 0] : memref<3x4xf32, #tile.memory<register>>
      %s = math.fma %x, %w, %c : f32
      loop.store %s, %acc[%i, 0] : memref<3x4xf32, #tile.memory<register>>
    }
  }
}
