"""The trace of a lowering: for each stage, what it changed as a diff, and why it left a kernel as it was.

>>> t:007_stage_inputs @k_relu
@@ -1,5 +1,6 @@
 ...
<<< t:007_stage_inputs
--- t:004_cooperative_reduce skipped at @k_relu: the kernel's schedule leaves it out
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from io import StringIO

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.printer import Printer

from deplodock.passes.driver import StageRun


class Trace:
    """An observer of `driver.lower` that writes the trace, a line at a time and without line ends.

    The diffs chain: each starts from the text that the one before it ended with.
    """

    def __init__(self, module: ModuleOp, write: Callable[[str], object]) -> None:
        self._texts = _symbol_texts(module, tuple(module.ops), {})
        self._write = write

    def __call__(self, run: StageRun, module: ModuleOp) -> None:
        """Write what a stage did: the symbols it changed in the order of the module, those it removed, the remarks."""
        label, before = run.stage.label, self._texts
        after = self._texts = _symbol_texts(module, run.changed, before)
        for symbol in dict.fromkeys((*after, *before)):
            old, new = before.get(symbol, []), after.get(symbol, [])
            if old == new:
                continue
            self._write(f">>> {label} @{symbol}")
            # The first two lines of a unified diff name its files.
            for line in list(difflib.unified_diff(old, new, lineterm=""))[2:]:
                self._write(line)
            self._write(f"<<< {label}")
        for remark in run.remarks:
            self._write(f"--- {remark}")


def _symbol_texts(
    module: ModuleOp, changed: Collection[Operation], before: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    """The lines of each top-level function as it is printed alone, so that its values are numbered from 0.

    Those that have not changed have the lines that they had before.
    """
    texts: dict[str, list[str]] = {}
    for op in module.ops:
        name = op.get_attr_or_prop("sym_name")
        if not isinstance(name, StringAttr):
            continue
        if op not in changed:
            texts[name.data] = before[name.data]
            continue
        stream = StringIO()
        Printer(stream).print_op(op)
        texts[name.data] = stream.getvalue().splitlines()
    return texts
