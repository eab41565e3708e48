// RUN: not deplodock-opt %s -p 'async-copy{bytes=4}' 2>&1 | filecheck %s

// CHECK: async-copy{bytes=4} applies to no kernel: @k: sm_75 has no asynchronous copies; they need sm_80
builtin.module attributes {kernel.target = #kernel.target<sm_75, sms = 40, shared_per_block = 65536>} {
  func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
    tile.launch (%t = 64 : thread) {
      %xs = tile.stage %x[d0] : memref<64xf32> to memref<64xf32, #tile.memory<shared>>
      %v = loop.load %xs[63 - %t] : memref<64xf32, #tile.memory<shared>>
      loop.store %v, %out[%t] : memref<64xf32>
    }
    func.return
  }
}
