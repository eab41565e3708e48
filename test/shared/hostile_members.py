"""Members that are no program's, or those of another: each is a change of a file whose digest is right again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Parts:
    """The members of a file, JSON as values, and those of a file of another program."""

    facts: Any
    plan: Any
    members: dict[str, bytes]
    other: dict[str, bytes] = field(repr=False)

    @property
    def signature(self) -> Any:
        """The facts of its calls."""
        return self.facts["signature"]

    def replace(self, name: str, old: str, new: str) -> None:
        """Change the text of a member, where it first has another."""
        text = self.members[name].decode()
        assert old in text, (name, old)
        self.members[name] = text.replace(old, new, 1).encode()

    def take(self, *names: str) -> None:
        """Take members of the other program."""
        for name in names:
            self.members[name] = self.other[name]


Change = Callable[[Parts], object]
DEEP = 100_000


def fact(**facts: Any) -> Change:
    """Other facts."""
    return lambda parts: parts.facts.update(facts)


def signature(**facts: Any) -> Change:
    """Another signature."""
    return lambda parts: parts.signature.update(facts)


def tensor(group: str, **facts: Any) -> Change:
    """Other facts of the first input or result."""
    return lambda parts: parts.signature[group][0].update(facts)


def plan(**facts: Any) -> Change:
    """Another plan."""
    return lambda parts: parts.plan.update(facts)


def launch(**facts: Any) -> Change:
    """Another first launch."""
    return lambda parts: parts.plan["launches"][0].update(facts)


def kernel(text: str) -> Change:
    """Another module at kernel level."""

    def change(parts: Parts) -> None:
        parts.members["kernel.mlir"] = text.encode()

    return change


def attribute(text: str) -> Change:
    """A module with an attribute."""
    return kernel(f"builtin.module attributes {{a = {text}}} {{}}")


def tensors(header: Any, data: bytes = bytes(64), length: int | None = None) -> Change:
    """Another file of tensors."""

    def change(parts: Parts) -> None:
        text = json.dumps(header).encode()
        size = len(text) if length is None else length
        parts.members["tensors.safetensors"] = size.to_bytes(8, "little") + text + data

    return change


def larger(parts: Parts) -> None:
    """All buffers have 1,000 times as many elements."""
    for buffer in parts.plan["buffers"]:
        buffer["shape"] = [1000 * buffer["shape"][0], *buffer["shape"][1:]]
    parts.plan["scratch"] *= 1000


def larger_scratch(parts: Parts) -> None:
    """Buffers between kernels have 1,000 times as many elements."""
    for buffer in parts.plan["buffers"]:
        if buffer["offset"] is not None:
            buffer["shape"] = [1000 * buffer["shape"][0], *buffer["shape"][1:]]
    parts.plan["scratch"] *= 1000


def reverse(parts: Parts) -> None:
    """Kernels run before those that give what they read."""
    parts.plan["launches"].reverse()


def again(parts: Parts) -> None:
    """A kernel runs twice."""
    parts.plan["launches"] *= 2


def map_argument(parts: Parts) -> None:
    """A tensor map that is larger than its buffer."""
    parts.plan["launches"][0]["arguments"][0] = {
        **{"buffer": 0, "shape": [1 << 20, 1 << 20], "dtype": "float32", "box": [1, 4], "swizzle": 0},
        "is_tf32": False,
    }


def a_tensor(**facts: Any) -> Any:
    """The header of one tensor of 3 floats."""
    return {"constant 0": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12], **facts}}


OTHER_PLAN = "its plan is that of another program"
MEMBERS: dict[str, tuple[Change, str]] = {
    "facts that are a list": (lambda parts: setattr(parts, "facts", []), "it is no program that deplodock has saved"),
    "facts that nest": (
        lambda parts: parts.members.update({"program.json": b"[" * DEEP}),
        "it nests too deep",
    ),
    "facts of a million keys": (
        lambda parts: parts.facts.update({str(n): 0 for n in range(300_000)}),
        "its facts are not those of a program",
    ),
    "a number that is none": (fact(format=float("nan")), "NaN is no number of JSON"),
    "a format that is true": (fact(format=True), "in version true of the format"),
    "a format of 70 digits": (fact(format=10**70), r"in version 1000*\.\.\. of the format"),
    "a version with an end of line": (fact(format=99, deplodock="\n\x1b[2J"), r"deplodock \\n\\u001b\[2J has saved it"),
    "a format that is missing": (lambda parts: parts.facts.pop("format"), "damaged"),
    "another GPU": (fact(arch=7), "unknown architecture '7'"),
    "another device": (fact(device="cuda:99"), 'there is no device "cuda:99"'),
    "a shape that is negative": (tensor("inputs", shape=[-2, 3]), "a number must be 0 or more, got -2"),
    "a shape that is true": (tensor("inputs", shape=[True, 3]), "a number must be 0 or more, got true"),
    "a shape of floats": (tensor("inputs", shape=[2.0, 3]), "a number must be 0 or more, got 2.0"),
    "a shape of 2 ** 70": (tensor("inputs", shape=[2**70, 3]), "a number must be 0 or more, got 118"),
    "a shape of a petabyte": (tensor("inputs", shape=[1 << 48, 3]), "takes more memory than there is"),
    "a shape that is text": (tensor("inputs", shape="23"), "numbers must be a list"),
    "another shape": (tensor("inputs", shape=[3, 2]), OTHER_PLAN),
    "another type": (tensor("inputs", dtype="float64"), OTHER_PLAN),
    "a type that is no type": (tensor("inputs", dtype="compile"), 'there is no dtype "compile"'),
    "strides for other dimensions": (tensor("inputs", strides=[1]), "has 2 dimensions and 1 strides"),
    "strides of 1e15": (tensor("results", strides=[10**15, 1]), "takes more memory than there is"),
    "a result that starts elsewhere": (
        tensor("results", offset=4),
        "the result .* starts at 4, and results start at 0",
    ),
    "a result of another type": (tensor("results", dtype="int32"), OTHER_PLAN),
    "a result of another shape": (tensor("results", shape=[2, 300]), OTHER_PLAN),
    "a name that is a number": (tensor("inputs", name=3), "a name must be text, got 3"),
    "a name that ends the line": (tensor("inputs", name="x\n\x1b[2J"), "a name must be printable"),
    "an input that there is not": (signature(writes=[9]), "numbers inputs that there are not"),
    "an input that is written twice": (signature(writes=[0, 0]), "writes an input twice"),
    "a tie of state that there is not": (signature(ties=[[9, "weight"]]), "ties state that there is not"),
    "a tie to a number": (signature(ties=[[0, 3]]), "a name must be text, got 3"),
    "a flag that is a number": (signature(asks_layout=1), "asks_layout is true or false, got 1"),
    "a nest of other leaves": (signature(form=["tuple", []]), "a nest of 0 leaves for 1 values"),
    "arguments that are a tensor": (signature(form=None), "the arguments of its signature are no tuple and dict"),
    "a nest of code": (signature(result_form=["subprocess.Popen", ["touch", "evil"], [None]]), "which is not there"),
    "a nest with keys that are lists": (
        signature(result_form=["dict", [["x"]], [None]]),
        "the keys of a nest must be text or numbers",
    ),
    "a plan that nests": (lambda parts: parts.members.update({"plan.json": b"[" * DEEP}), "it nests too deep"),
    "buffers 1,000 times as large": (larger, OTHER_PLAN),
    "buffers between kernels 1,000 times as large": (larger_scratch, "its plan is not that of its kernels"),
    "scratch memory of an exabyte": (plan(scratch=1 << 60), "its plan is not that of its kernels"),
    "less scratch memory": (plan(scratch=0), "scratch memory of 0 bytes does not hold its buffers"),
    "counters": (plan(counters=256), "its plan is not that of its kernels"),
    "kernels out of order": (reverse, "its plan is not that of its kernels"),
    "kernels twice": (again, "its plan is not that of its kernels"),
    "no kernels": (plan(launches=[]), "its plan is not that of its kernels"),
    "an argument out of range": (launch(arguments=[99, 0]), "there is no buffer 99"),
    "an argument that is negative": (launch(arguments=[-1, 0]), "a number must be 0 or more, got -1"),
    "one argument less": (launch(arguments=[0]), "with other arguments than its kernels have"),
    "a tensor map": (map_argument, "a tensor map is larger than its buffer 0"),
    "a kernel that there is not": (launch(kernel="k_evil"), "its plan starts k_evil with other arguments"),
    "a kernel whose name is text": (launch(kernel='k"; system("x'), "the name of a kernel must be an identifier"),
    "5000 threads": (launch(threads=5000), "no GPU starts 1 CTAs of 5000 threads|no GPU starts .* of 5000 threads"),
    "no CTAs": (launch(blocks=0), "no GPU starts 0 CTAs"),
    "an input twice": (plan(inputs=[0, 0]), "an input must be a buffer of its own"),
    "kernels of another program": (
        lambda parts: parts.members.update({"kernels.cu": parts.other["kernels.cu"].replace(b" k_", b" k_other_")}),
        "with other arguments than its kernels have",
    ),
    "no text of kernels": (
        lambda parts: parts.members.update({"kernels.cu": b""}),
        "with other arguments than its ker",
    ),
    "text of bytes": (lambda parts: parts.members.update({"kernels.cu": b"\xff\xfe"}), "damaged"),
    "machine code that is none": (
        lambda parts: parts.members.update({"kernels.cubin": b"#!/bin/sh\ntouch evil\n"}),
        "its machine code is not that of its kernels",
    ),
    "machine code of other kernels": (
        lambda parts: parts.members.update({"kernels.cubin": b"\x7fELF" + b"\0.text.k_other\0"}),
        "its machine code is not that of its kernels",
    ),
    "IR of another program": (lambda parts: parts.take("kernel.mlir"), "its plan is not that of its kernels"),
    "loops of another program": (lambda parts: parts.take("loop.mlir"), "its loops are those of another program"),
    "everything but the signature": (
        lambda parts: (
            parts.take("kernel.mlir", "loop.mlir", "tensor.mlir", "kernels.cu"),
            parts.plan.update(json.loads(parts.other["plan.json"])),
        ),
        OTHER_PLAN,
    ),
    "no IR": (lambda parts: parts.members.pop("kernel.mlir"), "it has no kernel.mlir"),
    "IR that is text": (kernel("touch evil"), "its kernel.mlir is no IR"),
    "IR without a program": (kernel("builtin.module {}"), "no entry"),
    "regions that nest": (kernel("builtin.module {" * 3000 + "}" * 3000), "it nests too deep"),
    "types that nest": (attribute("tuple<" * DEEP + "i1" + ">" * DEEP), "it nests too deep"),
    "attributes that nest": (attribute("[" * DEEP + "]" * DEEP), "it nests too deep"),
    "maps that nest": (attribute("affine_map<(d0) -> (" + "(" * DEEP + "d0" + ")" * DEEP + ")>"), "it nests too deep"),
    "a constant of 4 TB": (attribute("dense<0.0> : tensor<1000000000000xf32>"), "a constant has more than 1048576"),
    "a constant of many dimensions": (
        attribute(f"dense<1> : tensor<{'1000x' * 50}i32>"),
        "a constant has more than 1048576 elements",
    ),
    "a constant in bytes": (attribute(f'dense<"0x{"00" * (1 << 21)}"> : tensor<524289xi32>'), "Shape mismatch|no IR"),
    "a constant of a million numbers": (attribute(f"[{'0,' * 600_000}0]"), "it has more than 1000000 words and signs"),
    "a number of 100,000 digits": (attribute("1" * 100_000), "its kernel.mlir is no IR"),
    "a loop without end": (
        kernel("func.func @main() { loop.repeat %t = 0 to 9223372036854775807 { } func.return }"),
        "its plan is not that of its kernels",
    ),
    "tensors of another shape": (
        tensors(a_tensor(shape=[1, 3]), bytes(12)),
        "its tensor 'constant 0' is that of another",
    ),
    "tensors of another type": (
        tensors(a_tensor(dtype="I32"), bytes(12)),
        "its tensor 'constant 0' is that of another",
    ),
    "tensors of another name": (
        tensors({"evil": a_tensor()["constant 0"]}, bytes(12)),
        "its tensor 'evil' is that of another program",
    ),
    "tensors behind the end": (tensors(a_tensor(data_offsets=[1 << 40, (1 << 40) + 12])), "damaged"),
    "tensors that are negative": (tensors(a_tensor(data_offsets=[-12, 0])), "damaged"),
    "tensors that are more than they say": (tensors(a_tensor(), bytes(640)), "damaged"),
    "tensors that overlap": (
        tensors(a_tensor() | {"evil": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]}}, bytes(16)),
        "damaged",
    ),
    "tensors of an exabyte": (tensors(a_tensor(shape=[1 << 58], data_offsets=[0, 1 << 60])), "damaged"),
    "a header of 2 ** 62 bytes": (tensors({}, length=1 << 62), "damaged"),
    "a header that nests": (
        lambda parts: parts.members.update({"tensors.safetensors": (1000).to_bytes(8, "little") + b"[" * 1000}),
        "damaged",
    ),
    "tensors larger than the signature's": (
        tensors(a_tensor(), bytes(1 << 20)),
        "tensors.safetensors has [0-9]* bytes, and may have [0-9]*",
    ),
}
"""Changes of a file, and what is said of each."""
