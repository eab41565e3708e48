// RUN: deplodock-opt %s --split-input-file --verify-diagnostics

func.func @f(%v: f32) {
  tile.launch (%t = 4 : thread) {
    // expected-error@+1 {{a value is kept in #tile.memory<shared>, got memref<4xf32>}}
    %s = tile.keep %v[%t] : memref<4xf32>
  }
  func.return
}

// -----

func.func @f(%v: f32) {
  tile.launch (%t = 4 : thread) {
    // expected-error@+1 {{needs 2 subscripts, got 1}}
    %s = tile.keep %v[%t] : memref<4x4xf32, #tile.memory<shared>>
  }
  func.return
}

// -----

func.func @f(%v: f32) {
  tile.launch (%t = 4 : thread) {
    // expected-error@+1 {{a slab needs a static shape, got memref<?xf32}}
    %s = tile.keep %v[%t] : memref<?xf32, #tile.memory<shared>>
  }
  func.return
}

// -----

func.func @f(%v: f32) {
  tile.launch (%t = 4 : thread) {
    // expected-error@+1 {{cannot keep f32 in memref<4xf16}}
    %s = "tile.keep"(%v, %t) <{map = affine_map<(d0) -> (d0)>}> : (f32, index) -> memref<4xf16, #tile.memory<shared>>
  }
  func.return
}

// -----

func.func @f(%v: f32, %s: memref<4xf32, #tile.memory<register>>, %y: memref<4xf32>) {
  // expected-error@+1 {{a slab is stored from #tile.memory<shared>, got memref<4xf32, #tile.memory<register>>}}
  tile.store %s to %y[d0] : memref<4xf32, #tile.memory<register>> to memref<4xf32>
  func.return
}

// -----

func.func @f(%s: memref<4xf32, #tile.memory<shared>>, %y: memref<4xf32, #tile.memory<shared>>) {
  // expected-error@+1 {{store copies to global memory, got memref<4xf32, #tile.memory<shared>>}}
  tile.store %s to %y[d0] : memref<4xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<shared>>
  func.return
}
