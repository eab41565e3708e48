// RUN: deplodock-opt %s -p 'tileify,stage-inputs{values=24}' | filecheck %s --check-prefix=FITS
// RUN: not deplodock-opt %s -p 'tileify,stage-inputs{values=23 memory=register}' 2>&1 | filecheck %s --check-prefix=EXCEEDS

// How many values of a thread may be kept in registers is an option.
// FITS: tile.stage %x[%i, d0] : memref<64x24xf32> to memref<24xf32, #tile.memory<register>>
// EXCEEDS: stage-inputs{memory=register values=23} applies to no kernel: @own_row: %x: 24 values of a thread exceed 23 registers
func.func @own_row(%x: memref<64x24xf32>, %out: memref<64x24xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 24 : f32 {
      %v = loop.load %x[%i, %k] : memref<64x24xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 24 {
      %v = loop.load %x[%i, %j] : memref<64x24xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%i, %j] : memref<64x24xf32>
    }
  }
  func.return
}
