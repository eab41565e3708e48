"""The SIMT simulator counts memory traffic as a GPU's profiler does."""

import numpy as np
import pytest

from deplodock.interpreters.simulate import Counters, simulate
from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser


def count(text: str, *inputs: np.ndarray) -> Counters:
    """The counters of the module's only kernel."""
    context = new_context()
    (counters,) = simulate(LocatingParser(context, text, "test.mlir").parse_module(), inputs).counters.values()
    return counters


@pytest.mark.parametrize(
    ("shape", "subscripts", "wavefronts"),
    [
        ("32x32xf32", "%t, 0", 32),
        ("32x32xf32, strided<[33, 1]>", "%t, 0", 1),
        ("32x32xf32", "0, %t", 1),
        ("32x32xf32", "0, 0", 1),
        ("32x32xf32", "%t mod 2, 0", 2),
        ("32x32xf64", "0, %t", 2),
        ("32x32xf64", "%t, 0", 32),
    ],
)
def test_bank_conflicts(shape: str, subscripts: str, wavefronts: int) -> None:
    element = shape.partition(",")[0].rpartition("x")[2]
    counters = count(
        f"""
        kernel.func @k(%out: memref<32x{element}>) blocks(%block = 1) threads(%t = 32) {{
          %s = kernel.alloc : memref<{shape}, #tile.memory<shared>>
          %v = loop.load %s[{subscripts}] : memref<{shape}, #tile.memory<shared>>
          loop.store %v, %out[%t] : memref<32x{element}>
        }}
        """
    )
    assert counters.shared_wavefronts == wavefronts


def test_quarter_warps_share_a_wavefront_of_16_byte_accesses() -> None:
    def wavefronts(subscript: str) -> tuple[int, int]:
        counters = count(
            f"""
            kernel.func @k() blocks(%block = 3) threads(%t = 32) {{
              %s = kernel.alloc : memref<1024xf32, #tile.memory<shared>>
              %r = kernel.alloc : memref<4xf32, #tile.memory<register>>
              kernel.move 4 %s[{subscript}] to %r[0]
                : memref<1024xf32, #tile.memory<shared>> to memref<4xf32, #tile.memory<register>>
            }}
            """
        )
        return counters.shared_wavefronts, counters.shared_ideal_wavefronts

    assert wavefronts("%t * 4") == (12, 12)
    assert wavefronts("%t * 8") == (24, 12)


def test_sectors_of_a_strided_access() -> None:
    counters = count(
        """
        kernel.func @k(%x: memref<64x32xf32>, %out: memref<64xf32>) blocks(%block = 2) threads(%t = 32) {
          %v = loop.load %x[%block * 32 + %t, 0] : memref<64x32xf32>
          loop.store %v, %out[%block * 32 + %t] : memref<64xf32>
        }
        """,
        np.zeros((64, 32), np.float32),
    )
    assert (counters.global_sectors_read, counters.global_sectors_written) == (64, 8)
