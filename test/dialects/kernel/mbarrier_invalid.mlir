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

// CHECK: a barrier takes one subscript, got 2
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  %full = kernel.mbarrier 1 arrivals 1
  kernel.arrive %full[0, 1]
}
