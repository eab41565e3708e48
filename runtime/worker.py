"""The process of a worker: it lowers programs that come line by line, and keeps them for the process that asked.

`runtime/workers.py` starts it and says what the lines hold.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from deplodock.passes.driver import new_context
from deplodock.runtime.lowering import lower_by_loops, read_text
from deplodock.runtime.planned import compiled, planned_program
from deplodock.runtime.tuned import read_tuned


def main() -> None:
    """Answer each request with a line, the message of its error or nothing, until there are no more."""
    # Whoever asked sees to an interrupt, and ends this process by ending its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin:
            answers.write(json.dumps(_error_of(json.loads(line))) + "\n")
            answers.flush()


def _error_of(request: dict[str, Any]) -> str:
    os.environ["DEPLODOCK_CACHE"] = request["folder"]
    try:
        context = new_context()
        module = read_text(context, request["text"])
        tuned = None if request["tuned"] is None else read_tuned(Path(request["tuned"]))
        lower_by_loops(module, context, schedule=request["schedule"], tuned=tuned)
        if request["compiles"]:
            compiled(planned_program(module))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
