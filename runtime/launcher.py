"""The host side of a program as C for CUDA's driver: a header, and functions that load kernels and start them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from deplodock.codegen.names import comment_text
from deplodock.runtime import tensor_maps
from deplodock.runtime.plan import LaunchPlan, ProgramPlan, TensorMapPlan


@dataclass(frozen=True)
class Launcher:
    """A program to write down: the prefix of what its files define, its plan, and a text about it, of some lines.

    `inputs` and `outputs` say what the caller's buffers are.
    """

    name: str
    plan: ProgramPlan
    about: str
    inputs: Sequence[str]
    outputs: Sequence[str]

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        return list(dict.fromkeys(launch.kernel for launch in self.plan.launches))


def header(program: Launcher) -> str:
    """The declarations, with what a caller must know."""
    name, plan = program.name, program.plan
    macro = name.upper()
    return f"""\
/* {indent(program.about, "   ").strip()}

   Inputs:
{_listing(program, plan.inputs, program.inputs)}
   Outputs:
{_listing(program, plan.outputs, program.outputs)}
   Buffers are contiguous, in the order of their dimensions; they start at multiples of 16 bytes, and outputs overlap
   nothing. */
#ifndef {macro}_H
#define {macro}_H

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {macro}_INPUTS {len(plan.inputs)}
#define {macro}_OUTPUTS {len(plan.outputs)}

typedef struct {name}_program {name}_program;

/* The bytes of each input and each output. */
extern const size_t {name}_input_bytes[{max(1, len(plan.inputs))}];
extern const size_t {name}_output_bytes[{max(1, len(plan.outputs))}];

/* Load the content of {name}.cubin in the current context, and take {plan.scratch} bytes of scratch memory. */
CUresult {name}_load({name}_program **program, const void *image);

/* Start the kernels on a stream and wait for nothing. Two runs of a program that are not ordered, as those on two
   streams, need one that is loaded twice: runs share its scratch memory. */
CUresult {name}_run(const {name}_program *program, const CUdeviceptr *inputs, const CUdeviceptr *outputs,
                    CUstream stream);

/* Free what {name}_load took, when the runs have ended. */
CUresult {name}_unload({name}_program *program);

#ifdef __cplusplus
}}
#endif

#endif
"""


def source(program: Launcher) -> str:
    """The definitions, in C11."""
    name, plan = program.name, program.plan
    has_maps = any(isinstance(argument, TensorMapPlan) for launch in plan.launches for argument in launch.arguments)
    lines = [*_buffers(plan), *(_launch(program, launch) for launch in plan.launches), *_copies(plan)]
    unused = (f"(void){given};" for given in ("inputs", "outputs") if not any(f"{given}[" in line for line in lines))
    body = "\n".join([*unused, *lines])
    return f"""\
/* {indent(program.about, "   ").strip()} */
#include "{name}.h"

#include <stdlib.h>

#define TRY(call) \\
  do {{ \\
    const CUresult tried = (call); \\
    if (tried != CUDA_SUCCESS) return tried; \\
  }} while (0)

struct {name}_program {{
  CUmodule module;
  CUdeviceptr scratch;
  CUfunction kernels[{len(program.kernels)}];
}};

const size_t {name}_input_bytes[] = {_sizes(plan, plan.inputs)};
const size_t {name}_output_bytes[] = {_sizes(plan, plan.outputs)};

static CUresult load({name}_program *program, const void *image) {{
  TRY(cuModuleLoadData(&program->module, image));
{indent(_load(program), "  ")}
  return CUDA_SUCCESS;
}}

CUresult {name}_load({name}_program **program, const void *image) {{
  *program = calloc(1, sizeof(**program));
  if (*program == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = load(*program, image);
  if (result != CUDA_SUCCESS) {{
    {name}_unload(*program);
    *program = NULL;
  }}
  return result;
}}

CUresult {name}_unload({name}_program *program) {{
  const CUresult freed = program->scratch != 0 ? cuMemFree(program->scratch) : CUDA_SUCCESS;
  const CUresult unloaded = program->module != NULL ? cuModuleUnload(program->module) : CUDA_SUCCESS;
  free(program);
  return freed != CUDA_SUCCESS ? freed : unloaded;
}}
{_ENCODE if has_maps else ""}
CUresult {name}_run(const {name}_program *program, const CUdeviceptr *inputs, const CUdeviceptr *outputs,
                    CUstream stream) {{
{indent(body, "  ")}
  return CUDA_SUCCESS;
}}
"""


_ENCODE = f"""
static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, CUdeviceptr address,
                       const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                       CUtensorMapSwizzle swizzle) {{
  static const cuuint32_t steps[5] = {{1, 1, 1, 1, 1}};
  return cuTensorMapEncodeTiled(map, type, rank, (void *)address, shape, strides, box, steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, {tensor_maps.L2_PROMOTION},
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}}
"""


def _listing(program: Launcher, numbers: Sequence[int], names: Sequence[str]) -> str:
    buffers = (program.plan.buffers[number] for number in numbers)
    kinds = (f"{buffer.dtype.name}{list(buffer.shape)}" for buffer in buffers)
    lines = [
        f"   {place}: {kind}, {comment_text(name)}" for place, (kind, name) in enumerate(zip(kinds, names, strict=True))
    ]
    return "\n".join(lines or ["   none"])


def _sizes(plan: ProgramPlan, numbers: Sequence[int]) -> str:
    return _listed([plan.buffers[number].bytes for number in numbers])


def _load(program: Launcher) -> str:
    """The kernels, their dynamic shared memory, and scratch memory with its counters."""
    lines: list[str] = []
    for place, kernel in enumerate(program.kernels):
        function = f"program->kernels[{place}]"
        lines.append(f'TRY(cuModuleGetFunction(&{function}, program->module, "{kernel}"));')
        if shared := max(launch.shared for launch in program.plan.launches if launch.kernel == kernel):
            attribute = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
            lines.append(f"TRY(cuFuncSetAttribute({function}, {attribute}, {shared}));")
        if any(launch.is_early for launch in program.plan.launches if launch.kernel == kernel):
            lines += [
                "/* What starts early divides an SM's memory as the kernel before it: for that it need not be idle. */",
                f"TRY(cuFuncSetAttribute({function}, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100));",
            ]
    scratch, counters = program.plan.scratch, program.plan.counters
    if scratch:
        lines.append(f"TRY(cuMemAlloc(&program->scratch, {scratch}));")
    if counters:
        lines += [
            "/* Counters are zero before the first run, and each run leaves them zero. */",
            f"TRY(cuMemsetD8(program->scratch + {scratch - counters}, 0, {counters}));",
            "TRY(cuStreamSynchronize(NULL));",
        ]
    return "\n".join(lines)


def _buffers(plan: ProgramPlan) -> list[str]:
    """A variable for each buffer that a kernel uses. An output that is an input, or an earlier output, is that one."""
    used = dict.fromkeys(
        argument.buffer if isinstance(argument, TensorMapPlan) else argument
        for launch in plan.launches
        for argument in launch.arguments
    )
    return [f"CUdeviceptr b{number} = {_place(plan, number)};" for number in sorted(used)]


def _place(plan: ProgramPlan, number: int) -> str:
    """Where a buffer lies."""
    if number in plan.inputs:
        return f"inputs[{plan.inputs.index(number)}]"
    if number in plan.outputs:
        return f"outputs[{plan.outputs.index(number)}]"
    return f"program->scratch + {plan.buffers[number].offset}"


def _launch(program: Launcher, launch: LaunchPlan) -> str:
    lines: list[str] = []
    arguments: list[str] = []
    for argument in launch.arguments:
        if isinstance(argument, TensorMapPlan):
            map = f"map{len(lines)}"
            lines.append(_map(map, argument))
            arguments.append(map)
        else:
            arguments.append(f"b{argument}")
    function = f"program->kernels[{program.kernels.index(launch.kernel)}]"
    lines += [
        f"void *arguments[] = {{{', '.join(f'&{argument}' for argument in arguments) or 'NULL'}}};",
        *([_EARLY] if launch.is_early else []),
        f"const CUlaunchConfig config = {{{launch.blocks}, 1, 1, {launch.threads}, 1, 1, {launch.shared}, stream, "
        f"{'&early, 1' if launch.is_early else 'NULL, 0'}}};",
        f"TRY(cuLaunchKernelEx(&config, {function}, arguments, NULL));",
    ]
    return "\n".join([f"{{ /* {launch.kernel} */", indent("\n".join(lines), "  "), "}"])


_EARLY = """\
/* It starts while the kernel before it still runs, and waits for that itself. */
CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                           .value = {.programmaticStreamSerializationAllowed = 1}};"""


def _map(name: str, map: TensorMapPlan) -> str:
    """The statements that encode a tensor map."""
    shape, strides, box = tensor_maps.dimensions(map)
    rows = [
        f"CUtensorMap {name};",
        f"static const cuuint64_t {name}_shape[] = {_listed(shape)};",
        f"static const cuuint64_t {name}_strides[] = {_listed(strides)};",
        f"static const cuuint32_t {name}_box[] = {_listed(box)};",
        f"TRY(encode(&{name}, {tensor_maps.type_name(map)}, {len(shape)}, b{map.buffer}, {name}_shape,\n"
        f"           {name}_strides, {name}_box, {tensor_maps.swizzle_name(map)}));",
    ]
    return "\n".join(rows)


def _listed(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values)) or '0'}}}"


def _copies(plan: ProgramPlan) -> list[str]:
    """What gives outputs that are inputs, or earlier outputs, in buffers of their own where the caller has these."""
    lines: list[str] = []
    for place, number in enumerate(plan.outputs):
        source, own = _place(plan, number), f"outputs[{place}]"
        if source != own and (size := plan.buffers[number].bytes):
            lines.append(f"if ({own} != {source}) TRY(cuMemcpyDtoDAsync({own}, {source}, {size}, stream));")
    return lines
