"""A folder of what a program becomes, as files for people to read and compare."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.errors import InvalidInputError
from deplodock.runtime.files import write_whole


class Dump:
    """A folder of the module after each pass, numbered in their order, and of the CUDA of each kernel.

    `count` says how many modules it has. Each method raises InvalidInputError where the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.count = 0

    def module(self, label: str, text: str) -> None:
        """Write the text of the module, as it is after the pass that the label names."""
        self._write(f"{self.count:02d}_{label}.mlir", text)
        self.count += 1

    def kernels(self, module: ModuleOp) -> None:
        """Write a file of CUDA for each kernel of a module."""
        for function in kernel.functions(module):
            self._write(f"{function.sym_name.data}.cu", print_module(ModuleOp([function.clone()])))

    def _write(self, name: str, text: str) -> None:
        make_folder(self._folder)
        try:
            write_whole(self._folder / name, text)
        except OSError as error:
            raise _unwritable(self._folder, error) from None


def make_folder(folder: Path) -> None:
    """Make a folder and those that it stands in. Raises InvalidInputError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"the dump folder {folder} cannot be written: {error.strerror or error}")
