"""Runs programs of IR text on the GPU, without PyTorch: `run_kernels.py FILE...` for a sanitizer.

The inputs are those pickled beside FILE.mlir in FILE.inputs, or else drawn.
"""

import pickle
import sys
from pathlib import Path

from xdsl.parser import Parser

from deplodock.analysis.host.arguments import entry_function
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import input_types
from deplodock.passes.driver import new_context
from deplodock.runtime.device import Executable


def main() -> None:
    """Run each file and print its name before."""
    context = new_context()
    for path in map(Path, sys.argv[1:]):
        print(path.stem, flush=True)
        module = Parser(context, path.read_text(encoding="utf-8"), str(path)).parse_module()
        stored = path.with_suffix(".inputs")
        if stored.is_file():
            inputs = pickle.loads(stored.read_bytes())
        else:
            inputs = draw_inputs(input_types(entry_function(module)), 0, "normal", lowest=0)
        Executable(module).run(inputs)


if __name__ == "__main__":
    main()
