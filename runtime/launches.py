"""The launches of a program on buffers at given addresses: what the driver takes for each is made once, and kept."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.errors import DeviceError, InvalidInputError
from deplodock.runtime import driver
from deplodock.runtime.plan import Argument, LaunchPlan, ProgramPlan, TensorMapPlan
from deplodock.runtime.tensor_maps import TensorMap


class Launches:
    """The launches of a plan; `place` says where its buffers lie, before each start.

    A kernel's parameters are read where they lie when it is started: addresses in one array, and tensor maps. So a
    buffer elsewhere is one number elsewhere, however many kernels are given it. One thread at a time may use them.
    """

    def __init__(self, plan: ProgramPlan, functions: Mapping[str, Any], scratch: int, numbers: Sequence[int]) -> None:
        """Launches on scratch memory at an address.

        Args:
            plan: the program.
            functions: its kernels by name.
            scratch: the address of its scratch memory.
            numbers: the other buffers, in the order in which `place` gives their addresses.
        """
        self._plans, self._numbers = plan.launches, numbers
        self._placed: list[int] | None = None
        self._stream: int | None = None
        self._addresses = (ctypes.c_uint64 * max(1, len(plan.buffers)))()
        for number, buffer in enumerate(plan.buffers):
            if buffer.offset is not None:
                self._addresses[number] = scratch + buffer.offset
        arguments = {argument for launch in plan.launches for argument in launch.arguments}
        self._maps = {plan: TensorMap(plan) for plan in arguments if isinstance(plan, TensorMapPlan)}
        self._calls = [
            driver.launch_call(functions[launch.kernel], launch, [*map(self._pointer, launch.arguments)])
            for launch in plan.launches
        ]

    def _pointer(self, argument: Argument) -> int:
        """Where the value of a parameter lies."""
        if isinstance(argument, TensorMapPlan):
            return self._maps[argument].pointer
        return ctypes.addressof(self._addresses) + argument * ctypes.sizeof(ctypes.c_uint64)

    def place(self, addresses: Sequence[int]) -> None:
        """Say where the buffers lie that are not in scratch memory.

        Raises:
            InvalidInputError: an address is no multiple of 16.
            Error: the driver refuses the tensor map of a buffer.
        """
        if addresses == self._placed:
            return
        if reduce(or_, addresses, 0) % ACCESS_BYTES:
            number, address = next(
                pair for pair in zip(self._numbers, addresses, strict=True) if pair[1] % ACCESS_BYTES
            )
            raise InvalidInputError(
                f"buffer {number} starts at {address:#x}, which is no multiple of {ACCESS_BYTES} bytes"
            )
        self._placed = None
        for number, address in zip(self._numbers, addresses, strict=True):
            self._addresses[number] = address
        for plan, own in self._maps.items():
            own.place(self._addresses[plan.buffer])
        self._placed = [*addresses]

    def start(self, stream: int, only: Sequence[int] | None = None) -> None:
        """Start the launches in order, or only those of these numbers, on a stream by its handle; waits for none.

        Raises DeviceError where the driver refuses one.
        """
        if stream != self._stream:
            for config, *_ in self._calls:
                config.hStream = stream
            self._stream = stream
        start = driver.starter()
        for number in range(len(self._calls)) if only is None else only:
            (status,) = start(*self._calls[number])
            if status:
                raise refused(self._plans[number], driver.error_text(status))


def refused(launch: LaunchPlan, reason: object) -> DeviceError:
    """What is raised where the driver does not take a launch."""
    return DeviceError(
        f"the GPU cannot start @{launch.kernel} with {launch.blocks} blocks of {launch.threads} threads and "
        f"{launch.shared} bytes of dynamic shared memory: {reason}"
    )
