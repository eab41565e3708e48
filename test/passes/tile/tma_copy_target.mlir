// RUN: not deplodock-opt %s -p 'tma-copy{bytes=16}' 2>&1 | filecheck %s

// CHECK: tma-copy{bytes=16} applies to no kernel: @k: sm_80 has no copies of boxes; they need sm_90
builtin.module attributes {kernel.target = #kernel.target<sm_80, sms = 108, shared_per_block = 166912>} {
  func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
    tile.launch (%t = 64 : thread) {
      %xs = tile.stage %x[d0] buffers 2 : memref<64xf32> to memref<64xf32, #tile.memory<shared>>
      %v = loop.load %xs[63 - %t] : memref<64xf32, #tile.memory<shared>>
      loop.store %v, %out[%t] : memref<64xf32>
    }
    func.return
  }
}
