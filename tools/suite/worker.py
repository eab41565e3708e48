"""What a process does with its problem; imported once, before processes are forked."""

from __future__ import annotations

import contextlib
import gc
import time
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from deplodock.errors import UnsupportedError
from deplodock.pytorch.saved import ProgramFile
from deplodock.tools.bench.report import short
from deplodock.tools.bench.rows import Row
from deplodock.tools.suite.measuring import measure
from deplodock.tools.suite.options import READY, SuiteOptions
from deplodock.tools.suite.preparing import prepared


def serve(connection: Connection, row: Row, options: SuiteOptions) -> None:
    """Prepare a problem, wait for the GPU, and measure it there. Sends what comes of it, in the end."""
    gc.freeze()
    with contextlib.redirect_stdout(StringIO()), contextlib.redirect_stderr(StringIO()), contextlib.suppress(OSError):
        found = _run(connection, row, options)
        gc.collect()
        if options.measures:
            torch.cuda.empty_cache()
        connection.send(found)


def _run(connection: Connection, row: Row, options: SuiteOptions) -> dict[str, Any]:
    """What comes of a problem; whatever goes wrong is its result."""
    try:
        start = time.perf_counter()
        program, refusal = _prepared(row, options)
        if not options.measures:
            return {"seconds": time.perf_counter() - start}
        _begin()
        connection.send(READY)
        connection.recv()
        return measure(Path(row.text), program, refusal, compiled=options.compiled)
    except Exception as error:
        return {"error": short(error)}


def _prepared(row: Row, options: SuiteOptions) -> tuple[ProgramFile | None, str]:
    """The problem compiled as a whole, or, where it is to be measured in parts, why it is not."""
    assert options.target is not None
    try:
        return prepared(Path(row.text), options.target), ""
    except UnsupportedError as error:
        if not options.measures:
            raise
        return None, short(error)


def _begin() -> None:
    """Make what PyTorch makes once in a process on its first use of the GPU, before it is this one's turn."""
    value = torch.ones(1, 8, 8, 8, device="cuda")
    torch.mm(value.view(64, 8), value.view(8, 64))
    F.conv2d(value, torch.ones(8, 8, 3, 3, device="cuda"))
    torch.cuda.synchronize()
