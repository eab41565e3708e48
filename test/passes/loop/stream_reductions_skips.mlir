// RUN: deplodock-opt %s -p 'stream-reductions{rows=all}' --split-input-file --verify-diagnostics

// Sums over rows of other lengths have loops of their own.
// expected-remark@+1 {{the loops of %max and %sum are not of one constant length}}
func.func @lengths(%x: memref<100xf32>, %out: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
    %a = loop.load %x[%i] : memref<100xf32>
    loop.yield %a : f32
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 50 : f32 {
    %a = loop.load %x[%j] : memref<100xf32>
    %shifted = arith.subf %a, %max : f32
    %e = math.exp %shifted fastmath<reassoc> : f32
    loop.yield %e : f32
  }
  loop.store %sum, %out[0] : memref<1xf32>
  func.return
}

// -----

// expected-remark@+1 {{the loop of %sum leaves out points; stream-reductions runs before skip-masked}}
func.func @points(%x: memref<100xf32>, %out: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
    loop.where %i < 60
    %a = loop.load %x[%i] : memref<100xf32>
    loop.yield %a : f32
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
    loop.where %j < 60
    %a = loop.load %x[%j] : memref<100xf32>
    %shifted = arith.subf %a, %max : f32
    %e = math.exp %shifted fastmath<reassoc> : f32
    loop.yield %e : f32
  }
  loop.store %sum, %out[0] : memref<1xf32>
  func.return
}

// -----

// A divisor of each element divides no sum.
// expected-remark@+1 {{what the scores of %sum are compared with or divided by varies along the row}}
func.func @divisors(%x: memref<100xf32>, %y: memref<100xf32>, %out: memref<1xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
    %a = loop.load %x[%i] : memref<100xf32>
    loop.yield %a : f32
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
    %a = loop.load %x[%j] : memref<100xf32>
    %shifted = arith.subf %a, %max : f32
    %e = math.exp %shifted fastmath<reassoc> : f32
    %b = loop.load %y[%j] : memref<100xf32>
    %share = arith.divf %e, %b fastmath<reassoc> : f32
    loop.yield %share : f32
  }
  loop.store %sum, %out[0] : memref<1xf32>
  func.return
}

// -----

// expected-remark@+1 {{the scores and %sum are not both of f32, or of f64}}
func.func @types(%x: memref<100xf16>, %out: memref<1xf16>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f16 {
    %a = loop.load %x[%i] : memref<100xf16>
    loop.yield %a : f16
  }
  %sum = loop.reduce {arith.addf} %j = 0 to 100 : f16 {
    %a = loop.load %x[%j] : memref<100xf16>
    %shifted = arith.subf %a, %max : f16
    %e = math.exp %shifted fastmath<reassoc> : f16
    loop.yield %e : f16
  }
  loop.store %sum, %out[0] : memref<1xf16>
  func.return
}

// -----

// Sums along loops of their own share no loop.
// expected-remark@+1 {{%sum and %o are needed in loops of their own}}
func.func @apart(%x: memref<100xf32>, %v: memref<100x8xf32>, %out: memref<8xf32>, %total: memref<4xf32>) {
  %max = loop.reduce {arith.maximumf} %i = 0 to 100 : f32 {
    %a = loop.load %x[%i] : memref<100xf32>
    loop.yield %a : f32
  }
  loop.for %c = 0 to 4 {
    %sum = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
      %a = loop.load %x[%j] : memref<100xf32>
      %shifted = arith.subf %a, %max : f32
      %e = math.exp %shifted fastmath<reassoc> : f32
      loop.yield %e : f32
    }
    loop.store %sum, %total[%c] : memref<4xf32>
  }
  loop.for %d = 0 to 8 {
    %o = loop.reduce {arith.addf} %j = 0 to 100 : f32 {
      %a = loop.load %x[%j] : memref<100xf32>
      %shifted = arith.subf %a, %max : f32
      %e = math.exp %shifted fastmath<reassoc> : f32
      %b = loop.load %v[%j, %d] : memref<100x8xf32>
      %w = arith.mulf %e, %b : f32
      loop.yield %w : f32
    }
    loop.store %o, %out[%d] : memref<8xf32>
  }
  func.return
}
