// RUN: deplodock-opt %s -p materialize --split-input-file -t cuda | filecheck %s

// An access takes 16 bytes: 8 elements of half precision.
// CHECK-LABEL: void __launch_bounds__(32) halves(
// CHECK:         __align__(16) __nv_bfloat16 a[8];
// CHECK-NEXT:    *reinterpret_cast<uint4*>(&a[0]) = *reinterpret_cast<const uint4*>(&x[t * 8]);
// CHECK:         *reinterpret_cast<uint4*>(&out[t * 8]) = *reinterpret_cast<const uint4*>(&b[0]);
func.func @halves(%x: memref<256xbf16>, %out: memref<256xbf16>) {
  tile.launch (%t = 32 : thread, %v = 8 : register) {
    %k = loop.index [%t * 8 + %v]
    %a = loop.load %x[%k] : memref<256xbf16>
    %w = arith.extf %a : bf16 to f32
    %s = arith.addf %w, %w : f32
    %b = arith.truncf %s : f32 to bf16
    loop.store %b, %out[%k] : memref<256xbf16>
  }
  func.return
}

// -----

// 16 bytes are two accesses of 4 floats, and one of 8 halves.
// CHECK-LABEL: void __launch_bounds__(32) widened(
// CHECK:         *reinterpret_cast<uint4*>(&a[0]) = *reinterpret_cast<const uint4*>(&x[t * 8]);
// CHECK:         for (int v_1 = 0; v_1 < 2; ++v_1) {
// CHECK-NEXT:      *reinterpret_cast<float4*>(&(out + (t * 8))[v_1 * 4]) = *reinterpret_cast<const float4*>(&w[v_1 * 4]);
func.func @widened(%x: memref<256xf16>, %out: memref<256xf32>) {
  tile.launch (%t = 32 : thread, %v = 8 : register) {
    %k = loop.index [%t * 8 + %v]
    %a = loop.load %x[%k] : memref<256xf16>
    %w = arith.extf %a : f16 to f32
    loop.store %w, %out[%k] : memref<256xf32>
  }
  func.return
}

// -----

// 16 elements of a byte; 8 from an address that is a multiple of 8 alone, and one by one from an odd one.
// CHECK-LABEL: void __launch_bounds__(32) bytes(
// CHECK:         *reinterpret_cast<uint4*>(&a[0]) = (t * 16 < 496) ? *reinterpret_cast<const uint4*>(&x[t * 16]) : make_uint4(0, 0, 0, 0);
// CHECK:         for (int v = 0; v < 2; ++v) {
// CHECK-NEXT:      *reinterpret_cast<uint2*>(&b[v * 8]) = *reinterpret_cast<const uint2*>(&(y + (t * 16))[v * 8 + 8]);
// CHECK:         for (int v_1 = 0; v_1 < 16; ++v_1) {
// CHECK-NEXT:      c[v_1] = (z + (t * 16))[v_1 + 1];
func.func @bytes(%x: memref<496xui8>, %y: memref<520xui8>, %z: memref<513xui8>, %out: memref<512xui8>) {
  tile.launch (%t = 32 : thread, %v = 16 : register) {
    %k = loop.index [%t * 16 + %v]
    %a = loop.load %x[%k] : memref<496xui8>
    %k8 = loop.index [%k + 8]
    %b = loop.load %y[%k8] : memref<520xui8>
    %k1 = loop.index [%k + 1]
    %c = loop.load %z[%k1] : memref<513xui8>
    %aw = arith.extui %a : ui8 to i32
    %bw = arith.extui %b : ui8 to i32
    %cw = arith.extui %c : ui8 to i32
    %ab = arith.addi %aw, %bw : i32
    %s = arith.addi %ab, %cw : i32
    %r = arith.trunci %s : i32 to ui8
    loop.store %r, %out[%k] : memref<512xui8>
  }
  func.return
}
