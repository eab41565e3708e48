// RUN: deplodock-opt %s -p verify-contract
// RUN: sed 's/%%n_t \* 2 + %%n_r)/%%n_r * 4 + %%n_t)/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix PLACES
// RUN: sed 's/lane %%n_t, %%n_g/lane %%m_w, %%n_g/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix K
// RUN: sed 's/%%m_g = 8 : thread, %%n_t = 4 : thread/%%n_t = 4 : thread, %%m_g = 8 : thread/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix LANES
// RUN: sed 's/ at (.*) : bf16/ : bf16/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix NONE
// RUN: sed 's/%%m_h = 2/%%m_h = 4/; s/%%m_i = 2/%%m_i = 4/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix ROWS
// RUN: sed 's/%%k_v = 8/%%k_v = 6/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix DEPTH
// RUN: sed 's/%%k_s \* 8 + %%k_v/%%n_r * 8 + %%k_v/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix VARIES
// RUN: sed 's/%%n_c = .*/%%n_c = loop.index [%%n_j * 8 + %%n_g]/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix SIBLINGS
// RUN: sed 's/over (%%k_t, %%k_v)/over (%%k_v)/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix ALONE
// RUN: sed 's/contract mma/contract wmma/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix ENGINE
// RUN: sed 's/xbf16/xf32/g; s/bf16, bf16/f32, f32/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix TYPES
// RUN: sed 's/%%m_w = 2/%%m_w = 1/; s/%%m_g = 8/%%m_g = 4/; s/%%n_g = 8/%%n_g = 4/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix WARPS
// RUN: sed 's/0 to 2 unroll/0 to min(2, %%m_g + 1)/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix BOUND
// RUN: sed 's/%%a = loop/loop.where %%k < 60 %%a = loop/' %s > %t.mlir && not deplodock-opt %t.mlir -p verify-contract 2>&1 | filecheck %s --check-prefix WHERE

// PLACES: error: tile.contract: the columns must be taken at `thread * 2 + register` for a thread axis, 4 lanes that are 1 apart, and a register axis of 2 columns
// K: error: tile.launch: a lane axis and its carrier must have the same extent
// LANES: error: tile.contract: the right factor's columns must be taken `at` one lane axis, 8 lanes that are 4 apart
// NONE: error: tile.contract: the right factor's columns must be taken `at` one lane axis, 8 lanes that are 4 apart
// ROWS: error: tile.contract: no register axis of 2 rows is the left factor's alone
// DEPTH: error: tile.contract: a lane holds 6 of the elements along k, not a multiple of 4
// VARIES: error: tile.contract: the left factor varies along %n_r, where its lanes hold one value
// SIBLINGS: error: loop.store: its values vary along {{%m_g and %n_g|%n_g and %m_g}}, which share their threads
// ALONE: error: tile.contract: k must run over one lane axis on the threads of %n_t, and over registers
// ENGINE: error: tile.contract: there is no engine wmma; there are mma
// TYPES: error: tile.contract: mma does not multiply f32 by f32 to f32
// WARPS: error: tile.contract: mma takes whole warps, and the launch has 16 threads
// BOUND: error: tile.contract: the bound of a loop around it varies along %m_g; a warp runs it as one
// WHERE: error: tile.contract: it adds the products of all points along %k_t, which a loop.where limits
func.func @k(%x: memref<64x64xbf16>, %w: memref<16x64xbf16>, %out: memref<64x16xf32>) {
  tile.launch (%m_w = 2 : thread, %m_g = 8 : thread, %n_t = 4 : thread, %m_i = 2 : register, %n_j = 2 : register, %m_h = 2 : register, %n_r = 2 : register, %k_v = 8 : register, %k_t = 4 : lane %n_t, %n_g = 8 : lane %m_g) {
    %n_c = loop.index [%n_j * 8 + %n_t * 2 + %n_r]
    %n_o = loop.index [%n_j * 8 + %n_g]
    %m_c = loop.index [%m_w * 32 + %m_i * 16 + %m_h * 8 + %m_g]
    %acc = loop.reduce {arith.addf} %k_s = 0 to 2 unroll : f32 {
      %k = loop.index [%k_t * 16 + %k_s * 8 + %k_v]
      %a = loop.load %x[%m_c, %k] : memref<64x64xbf16>
      %b = loop.load %w[%n_o, %k] : memref<16x64xbf16>
      %c = tile.contract mma %a * %b over (%k_t, %k_v) at (%n_g = %n_t * 2 + %n_r) : bf16, bf16 -> f32
      loop.yield %c : f32
    }
    loop.store %acc, %out[%m_c, %n_c] : memref<64x16xf32>
  }
  func.return
}
