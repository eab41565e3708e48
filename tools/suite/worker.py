"""What a process does with its problem."""

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
from deplodock.tools.bench.report import short
from deplodock.tools.bench.rows import Row
from deplodock.tools.suite.measuring import measure
from deplodock.tools.suite.options import READY, REFUSAL, SuiteOptions
from deplodock.tools.suite.preparing import prepared


def serve(connection: Connection, row: Row, options: SuiteOptions, refusal: str | None) -> None:
    """Compile a problem, or, with a refusal, which may be empty, measure it; send what comes of it in the end."""
    gc.freeze()
    with contextlib.redirect_stdout(StringIO()), contextlib.redirect_stderr(StringIO()), contextlib.suppress(OSError):
        try:
            found = _compile(row, options) if refusal is None else _measure(connection, row, options, refusal)
        except Exception as error:
            found = {"error": short(error)}
        gc.collect()
        if refusal is not None:
            torch.cuda.empty_cache()
        connection.send(found)


def _compile(row: Row, options: SuiteOptions) -> dict[str, Any]:
    """Compile a problem: the seconds of that, and why it cannot be compiled as a whole, if it is to be measured."""
    assert options.target is not None
    start, refusal = time.perf_counter(), ""
    try:
        prepared(Path(row.text), options.target, row.precision)
    except UnsupportedError as error:
        if not options.measures:
            raise
        refusal = short(error)
    return {"seconds": time.perf_counter() - start, REFUSAL: refusal}


def _measure(connection: Connection, row: Row, options: SuiteOptions, refusal: str) -> dict[str, Any]:
    """Read what was compiled, ask for the GPU, and measure the problem when it is this one's turn."""
    assert options.target is not None
    program = None if refusal else prepared(Path(row.text), options.target, row.precision)
    _begin()
    connection.send(READY)
    connection.recv()
    return measure(Path(row.text), program, refusal, compiled=options.compiled, precision=row.precision)


def _begin() -> None:
    """Make what PyTorch makes once in a process on its first use of the GPU, before it is this one's turn."""
    value = torch.ones(1, 8, 8, 8, device="cuda")
    torch.mm(value.view(64, 8), value.view(8, 64))
    F.conv2d(value, torch.ones(8, 8, 3, 3, device="cuda"))
    torch.cuda.synchronize()
