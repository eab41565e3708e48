// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: there must be at least one barrier, got 0
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 0 arrivals 65
}

// -----

// CHECK: a phase takes 1 to 1048575 arrivals, got 0
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 1 arrivals 0
}

// -----

// CHECK: a phase expects 1 to 1048575 bytes, got 0
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 1 arrivals 1
  kernel.arrive %full[0] expect 0
}

// -----

// CHECK: expected one subscript, got 2
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 1 arrivals 1
  kernel.arrive %full[0, 1]
}

// -----

// CHECK: the barrier must be the result of a kernel.mbarrier
kernel.func @k(%full: !kernel.mbarrier) blocks(%block = 1) threads(%thread = 64) {
  kernel.arrive %full[0]
}

// -----

// CHECK: the subscript of the barrier must be an affine map over 0 dimensions, one for each operand, and no symbols; got (d0) -> (d0)
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 1 arrivals 1
  "kernel.arrive"(%full) <{slot = affine_map<(d0) -> (d0)>}> : (!kernel.mbarrier) -> ()
}
