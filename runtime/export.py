"""A compiled program as files that build and run without deplodock: CUDA, a launcher in C and one in Python.

The folder's name, as an identifier, is that of all files, and begins what they define:

* `NAME.cu`: the kernels, and `NAME.cubin`, their machine code, if there is a compiler of CUDA
* `NAME.h`, `NAME.c`: load the kernels and start them, by CUDA's driver, see `runtime/launcher.py`
* `NAME.py`: the same from Python, through the library that the Makefile makes of these
* `NAME.json`: the plan, see `runtime/plan_text.py`
* `Makefile`: `NAME.cubin` and `libNAME.so`
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.host.arguments import checks, entry_function, parameters
from deplodock.analysis.machine.targets import nvcc_arch
from deplodock.codegen.names import identifier
from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.runtime.environment import LEFT_OUT
from deplodock.runtime.files import opened, write_whole
from deplodock.runtime.launcher import Launcher, header, source
from deplodock.runtime.nvcc import CODE_FLAGS
from deplodock.runtime.plan_text import write_plan
from deplodock.runtime.planned import compiled, planned_program
from deplodock.version import __version__

_MARK = b": a program that deplodock "
"""What stands in the first line of each file but the machine code."""

_HEAD = 1000


def export(module: ModuleOp, folder: Path) -> list[Path]:
    """Write the files of a program at kernel level to a folder, which is made if it is not there; returns their paths.

    Raises:
        UnsupportedError: the program has no kernel, or does on the host what no launcher does.
        CompileError: the compiler of CUDA rejects the kernels.
        InvalidInputError: a file of one of these names is there, and no export has written it.
        OSError: the folder cannot be written.
    """
    planned = planned_program(module)
    if not planned.plan.launches:
        raise UnsupportedError("the program starts no kernel, so there is nothing to export")
    name, arch = identifier(folder.resolve().name), nvcc_arch(planned.arch)
    command = f"$(NVCC) -cubin {' '.join(CODE_FLAGS)} -arch={arch}"
    about = f"{name}{_MARK.decode()}{__version__} has compiled for {planned.arch}."
    entry = entry_function(module)
    names = [value.name_hint or f"input {number}" for number, value in enumerate(parameters(entry))]
    asserted = {number: f"which must be true: {message}" for number, message in checks(entry).items()}
    launcher = Launcher(
        name,
        planned.plan,
        about,
        [names[number] for number in planned.plan.inputs],
        [asserted.get(number, f"output {number}") for number in range(len(planned.plan.outputs))],
    )
    notes = f"// {about}\n// Compile it as the Makefile does: other flags round otherwise.\n"
    facts = {"about": about, **json.loads(write_plan(planned.plan))}
    files: dict[str, str | bytes] = {
        f"{name}.cu": notes + planned.text,
        f"{name}.h": header(launcher),
        f"{name}.c": source(launcher),
        f"{name}.py": _python(launcher),
        f"{name}.json": json.dumps(facts) + "\n",
        "Makefile": _makefile(launcher, command),
    }
    # Behind the text that it is made of, so that make takes it as it is.
    if (cubin := compiled(planned).cubin) is not None:
        files[f"{name}.cubin"] = cubin
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        _check_own(folder / file)
    for file, content in files.items():
        write_whole(folder / file, content)
    return [folder / file for file in files]


def _check_own(path: Path) -> None:
    """Raise InvalidInputError where a file is there that no export has written. A cubin is as the text beside it."""
    if path.suffix == ".cubin" and os.path.lexists(path):
        path = path.with_suffix(".cu")
    try:
        with opened(path) as file:
            is_own = _MARK in file.read(_HEAD)
    except FileNotFoundError:
        is_own = not os.path.lexists(path)
    except OSError:
        is_own = False
    if not is_own:
        raise InvalidInputError(f"{path} is no file of an export: remove it, or export to another folder")


def _makefile(program: Launcher, command: str) -> str:
    name = program.name
    return f"""\
# {program.about}
unexport {" ".join(LEFT_OUT)}
NVCC ?= nvcc
CUDA_HOME ?= $(abspath $(dir $(shell command -v $(NVCC)))..)
CFLAGS ?= -O2 -Wall -Wextra -Werror

all: {name}.cubin lib{name}.so

{name}.cubin: {name}.cu
	{command} -o $@ $<

lib{name}.so: {name}.c {name}.h
	$(CC) -std=c11 $(CFLAGS) -I$(CUDA_HOME)/include -shared -fPIC -o $@ $<

.PHONY: all
"""


def _python(program: Launcher) -> str:
    plan = program.plan
    inputs, outputs = (
        "".join(f'    ("{plan.buffers[number].dtype.name}", {plan.buffers[number].shape}),\n' for number in numbers)
        for numbers in (plan.inputs, plan.outputs)
    )
    return _PYTHON.format(name=program.name, about=program.about, inputs=inputs, outputs=outputs)


_PYTHON = '''\
"""{about}

Starts its kernels on tensors of PyTorch, through lib{name}.so, which `make` builds:

    program = Program()
    program([x], [y], torch.cuda.current_stream().cuda_stream)
"""

import ctypes
from pathlib import Path

INPUTS = [
{inputs}]
OUTPUTS = [
{outputs}]


class Program:
    """The program, loaded in the current context of CUDA, which PyTorch makes with the first tensor on a GPU."""

    def __init__(self):
        folder = Path(__file__).resolve().parent
        self._driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(folder / "lib{name}.so"))
        self._program = ctypes.c_void_p()
        image = (folder / "{name}.cubin").read_bytes()
        self._try(self._library.{name}_load, ctypes.byref(self._program), image)

    def __call__(self, inputs, outputs, stream=0):
        """Start the kernels on a stream, given as a number, and wait for nothing. They write into the outputs."""
        given = [_addresses(kind, *pair) for kind, *pair in (("input", INPUTS, inputs), ("output", OUTPUTS, outputs))]
        self._try(self._library.{name}_run, self._program, *given, ctypes.c_void_p(stream))

    def close(self):
        """Free what it holds of the GPU, when its kernels have ended."""
        self._try(self._library.{name}_unload, self._program)

    def _try(self, function, *args):
        if result := function(*args):
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(result, ctypes.byref(text))
            raise RuntimeError(f"{{function.__name__}}: {{(text.value or b'unknown error').decode()}}")


def _addresses(kind, wanted, tensors):
    if len(tensors) != len(wanted):
        raise ValueError(f"the program has {{len(wanted)}} {{kind}}s, got {{len(tensors)}}")
    for number, ((dtype, shape), tensor) in enumerate(zip(wanted, tensors)):
        found = str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape)
        if found != (dtype, shape) or not tensor.is_cuda or not tensor.is_contiguous() or tensor.data_ptr() % 16:
            raise ValueError(
                f"{{kind}} {{number}} must be {{dtype}} of shape {{shape}}, contiguous, on the GPU, at a multiple of "
                f"16 bytes, got {{found[0]}} of shape {{found[1]}} at {{tensor.data_ptr():#x}} on {{tensor.device}}"
            )
    return (ctypes.c_uint64 * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
'''
