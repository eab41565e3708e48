"""What the accesses of a warp cost: sectors of global memory, and wavefronts of shared memory.

Rows are warps: 32 byte addresses each, -1 for a lane that takes no part.
"""

from __future__ import annotations

import math

import numpy as np

from deplodock.analysis.machine.targets import ACCESS_BYTES, BANK_BYTES, BANKS, SECTOR_BYTES, WARP
from deplodock.interpreters.values import Array


def warps(address: Array, mask: Array | None, lanes: tuple[int, ...]) -> tuple[Array, int]:
    """The addresses of the lanes where `mask` holds as rows of warps, and how many times all the rows occur.

    `address` and `mask` broadcast to `lanes`, whose last dimension is the threads of a CTA; what they do not vary along
    is not expanded.
    """
    threads = lanes[-1]
    masks = () if mask is None else mask.shape
    shape = np.broadcast_shapes(address.shape, masks, (threads,))
    rows = np.broadcast_to(address, shape)
    if mask is not None:
        rows = np.where(mask, rows, -1)
    missing = -threads % WARP
    if missing:
        rows = np.concatenate([rows, np.full((*shape[:-1], missing), -1)], axis=-1)
    return rows.reshape(-1, WARP), math.prod(lanes) // math.prod(shape)


def sectors(rows: Array, bytes: int) -> int:
    """The sectors that warps touch when each lane accesses `bytes` from its address."""
    return _distinct(np.sort(_pieces(rows, bytes, SECTOR_BYTES), axis=1))[0]


def wavefronts(rows: Array, bytes: int) -> tuple[int, int]:
    """The wavefronts that warps need when each lane accesses `bytes` from its address, and the fewest possible.

    A wavefront serves each bank once: lanes that touch the same word share it. Accesses of 8 bytes are served a half
    warp at a time and those of 16 a quarter warp: how NVIDIA GPUs are observed to behave; no document guarantees it.
    A lane accesses 16 bytes at once, and more one after the other.
    """
    needed = ideal = 0
    for start in range(0, bytes, ACCESS_BYTES):
        piece = min(bytes - start, ACCESS_BYTES)
        together = min(WARP, WARP * BANK_BYTES // piece)
        phases = np.where(rows < 0, rows, rows + start).reshape(-1, together)
        phases = phases[(phases >= 0).any(axis=1)]
        needed += _bank_conflicts(_pieces(phases, piece, BANK_BYTES))
        ideal += len(phases)
    return needed, ideal


def _pieces(rows: Array, bytes: int, size: int) -> Array:
    """The numbers of the aligned pieces of `size` bytes that each row touches, -1 for none."""
    starts = range(0, max(bytes, 1), size)
    return np.concatenate([np.where(rows < 0, -1, (rows + start) // size) for start in starts], axis=1)


def _distinct(ordered: Array) -> tuple[int, Array]:
    """How many different non-negative numbers the sorted rows hold, and where each stands first."""
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return int(np.count_nonzero(first)), first


def _bank_conflicts(words: Array) -> int:
    """The sum over rows of the most different words in one bank."""
    if not len(words):
        return 0
    ordered = np.sort(words, axis=1)
    _, first = _distinct(ordered)
    row = np.broadcast_to(np.arange(len(ordered)).reshape(-1, 1), ordered.shape)[first]
    counts = np.bincount(row * BANKS + ordered[first] % BANKS, minlength=len(ordered) * BANKS)
    return int(counts.reshape(-1, BANKS).max(axis=1).sum())
