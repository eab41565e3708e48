// RUN: deplodock-opt %s -p 'choose-schedule{schedule="tileify,chunk-matmul-k(scores){bk=8},blockify-launch(values){n=24},blockify-launch{m=8 n=8}"},tileify,chunk-matmul-k,blockify-launch' --check-semantics | filecheck %s
// RUN: deplodock-opt %s -p 'choose-schedule{schedule="tileify,split-matmul-k(scores){s=2},blockify-launch(scores){m=8 n=16},blockify-launch(out){threads=32},blockify-launch(acc){m=4}"},tileify,split-matmul-k,blockify-launch' --check-semantics | filecheck %s --check-prefix=SPLIT

// A step is for the launch that it names by the buffer that it stores to or by a reduction; it has the defaults of its
// rule for what it leaves out. A step without a target is for the other launches.
// CHECK: attributes {deplodock.schedule = "tileify,chunk-matmul-k(scores){bk=8},blockify-launch(values){n=24},blockify-launch{m=8 n=8{{.*}}}"}
// CHECK: tile.launch (%m_b = 2 : block, %n_b = 2 : block, %m_t = 8 : thread, %n_t = 8 : thread) {
// CHECK:   %scores = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
// CHECK: tile.launch (%m_1 = 16 : thread, %n_1 = 24 : thread) {
// CHECK:   %acc = loop.reduce {arith.addf} %k_1 = 0 to 32 : f32 {

// Labels are those that the kernel has when a rule meets it: split-matmul-k has left the stores to %out to a launch that
// adds parts, and the contraction is still called %scores.
// SPLIT: tile.launch (%s = 2 : block, %m_b = 2 : block, %m_t = 8 : thread, %n = 16 : thread) {
// SPLIT:   loop.store %scores, %scores_part[
// SPLIT: tile.launch (%m_b_1 = 8 : block, %m_t_1 = 2 : thread, %n_1 = 16 : thread) {
// SPLIT:   loop.store %scores_1, %out[
// SPLIT: tile.launch (%m_b_2 = 4 : block, %n_b = 2 : block, %m_t_2 = 4 : thread, %n_t = 16 : thread) {
// SPLIT:   loop.store %acc, %values[
func.func @two(%x: memref<16x32xf32>, %w: memref<32x16xf32>, %v: memref<32x24xf32>, %out: memref<16x16xf32>, %values: memref<16x24xf32>) {
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 16 {
      %scores = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x32xf32>
        %b = loop.load %w[%k, %n] : memref<32x16xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %scores, %out[%m, %n] : memref<16x16xf32>
    }
  }
  loop.for %m = 0 to 16 {
    loop.for %n = 0 to 24 {
      %acc = loop.reduce {arith.addf} %k = 0 to 32 : f32 {
        %a = loop.load %x[%m, %k] : memref<16x32xf32>
        %b = loop.load %v[%k, %n] : memref<32x24xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %values[%m, %n] : memref<16x24xf32>
    }
  }
  func.return
}
