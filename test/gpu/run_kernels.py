"""Runs programs of IR text on the GPU, without PyTorch, on drawn inputs: `run_kernels.py FILE...` for a sanitizer."""

import sys
from pathlib import Path

from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.universe import Universe

from deplodock.analysis.arguments import entry_function
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import input_types
from deplodock.runtime.device import Executable


def main() -> None:
    """Run each file and print its name before."""
    context = Context()
    for name, dialect in Universe.get_multiverse().all_dialects.items():
        context.register_dialect(name, dialect)
    for path in map(Path, sys.argv[1:]):
        print(path.stem, flush=True)
        module = Parser(context, path.read_text(encoding="utf-8"), str(path)).parse_module()
        Executable(module).run(draw_inputs(input_types(entry_function(module)), 0, "normal", lowest=0))


if __name__ == "__main__":
    main()
