// RUN: deplodock-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: the roles have 256 threads together, and a CTA 384
kernel.func @k() blocks(%block = 1) threads(%thread = 384) {
  kernel.roles {
    kernel.role a(%t = 128) {}
    kernel.role b(%u = 128) {}
  }
}

// -----

// CHECK: a role has whole warps of 32 threads, got 48 threads
kernel.func @k() blocks(%block = 1) threads(%thread = 48) {
  kernel.roles {
    kernel.role a(%t = 48) {}
  }
}

// -----

// CHECK: the registers of a role are a multiple of 8 from 24 to 256, got 100
kernel.func @k() blocks(%block = 1) threads(%thread = 128) {
  kernel.roles {
    kernel.role a(%t = 128) registers 100 {}
  }
}

// -----

// CHECK: registers are given to warpgroups of 128 threads, and the role has 128 from thread 64 on
kernel.func @k() blocks(%block = 1) threads(%thread = 192) {
  kernel.roles {
    kernel.role a(%t = 64) {}
    kernel.role b(%u = 128) registers 232 {}
  }
}

// -----

// CHECK: a CTA has 1 to 15 roles of different names, got a, a
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  kernel.roles {
    kernel.role a(%t = 32) {}
    kernel.role a(%u = 32) {}
  }
}

// -----

// CHECK: a CTA has 1 to 15 roles of different names, got none
kernel.func @k() blocks(%block = 1) threads(%thread = 64) {
  kernel.roles {}
}

// -----

// CHECK: the body of a role takes the id of its threads, of type index
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  kernel.roles {
    "kernel.role"() <{role = "a", threads = 32 : i64}> ({
    ^bb0:
    }) : () -> ()
  }
}

// -----

// CHECK: the body of kernel.roles holds kernel.role alone, and takes no arguments
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  kernel.roles {
    kernel.role a(%t = 32) {}
    kernel.barrier
  }
}

// -----

// CHECK: a role stands in kernel.roles
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  kernel.role a(%t = 32) {}
}

// -----

// CHECK: all threads of a CTA come to its roles, so they stand in no loop, guard or role
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  loop.guard where (%block < 1) {
    kernel.roles {
      kernel.role a(%t = 32) {}
    }
  }
}

// -----

// CHECK: a kernel ends with its roles; move what follows into one of them
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  kernel.roles {
    kernel.role a(%t = 32) {}
  }
  kernel.barrier
}

// -----

// CHECK: the name of a role, such as producer
kernel.func @k() blocks(%block = 1) threads(%thread = 32) {
  kernel.roles {
    kernel.role (%t = 32) {}
  }
}
