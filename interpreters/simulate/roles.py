"""Roles of a CTA: each runs on a stack of its own, one at a time.

A role goes on until it waits for a phase that is not over, or has completed one: then others go on as far as they can.
So a phase is met as soon as it completes, and a role that runs ahead of what it should wait for overwrites what others
have read without telling it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Semaphore, Thread

import numpy as np
from xdsl.ir import Operation

from deplodock.dialects.kernel.roles import RoleOp, RolesOp
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.machine import Handlers, Lockstep, Unit


class _EndedError(Exception):
    """A role cannot go on, so that none does."""


@dataclass(eq=False)
class _Turn:
    """A role, and what it waits for: nothing, if it can go on."""

    role: RoleOp
    go: Semaphore = field(default_factory=lambda: Semaphore(0))
    op: Operation | None = None
    is_over: Callable[[], bool] | None = None
    is_done: bool = False

    def can_go_on(self) -> bool:
        """Whether it is not done, and what it waits for is over."""
        return not self.is_done and (self.is_over is None or self.is_over())


class Roles(Unit):
    """The roles of the CTAs that run together."""

    def __init__(self, launch: Lockstep) -> None:
        self._launch = launch
        self._turns: list[_Turn] = []
        self._current: _Turn | None = None
        self._error: BaseException | None = None
        """Why the roles end before their time."""

    def run(self, op: RolesOp, frame: Frame) -> None:
        """Run the roles to their ends. Raises what one of them raises."""
        self._turns = [_Turn(role) for role in op.roles]
        threads = [Thread(target=self._run, args=(turn, frame), daemon=True) for turn in self._turns]
        for thread in threads:
            thread.start()
        self._go(self._turns[0])
        for thread in threads:
            thread.join()
        error, self._error, self._turns, self._current = self._error, None, [], None
        if error is not None and not isinstance(error, _EndedError):
            raise error

    def wait(self, op: Operation, is_over: Callable[[], bool]) -> None:
        """Let other roles go on until something is over, or none of them can go on."""
        turn = self._current
        if turn is None:
            return
        turn.op, turn.is_over = op, is_over
        while not is_over() and self._error is None and (other := self._other(turn)) is not None:
            self._switch(turn, other)
        turn.is_over = None
        turn.op = None if is_over() else op

    def give_way(self) -> None:
        """Let another role go on that can."""
        turn = self._current
        if turn is not None and (other := self._other(turn)) is not None:
            self._switch(turn, other)
        if self._error is not None:
            raise _EndedError

    def end(self) -> None:
        """End the role that runs, if one does, as it waits for what is never over; so do those that are not done."""
        if self._current is not None:
            raise _EndedError

    def is_last(self) -> bool:
        """Whether all roles but the one that runs have ended; so where there are none."""
        return all(turn is self._current or turn.is_done for turn in self._turns)

    def others(self) -> str:
        """What the other roles do meanwhile, as the end of a message; nothing where there are none."""
        report, parts = self._launch.report, list[str]()
        for turn in self._turns:
            if turn is not self._current and turn.op is not None:
                parts.append(f"role {turn.role.role_name} waits at {report.reference(turn.op)}")
            elif turn.is_done:
                parts.append(f"role {turn.role.role_name} has ended")
        return "".join(f"; {part}" for part in parts)

    def _run(self, turn: _Turn, frame: Frame) -> None:
        turn.go.acquire()
        try:
            if self._error is None:
                with np.errstate(all="ignore"):
                    self._launch.block(turn.role.body.block, self._enter(turn.role, frame))
        except BaseException as error:
            self._error = self._error or error
        turn.is_done = True
        other = self._other(turn) or next((other for other in self._turns if not other.is_done), None)
        if other is not None:
            self._go(other)

    def _enter(self, role: RoleOp, frame: Frame) -> Frame:
        """The lanes of a role, which know their numbers in it from now on."""
        number = np.arange(frame.shape[-1]).reshape(1, -1) - role.first_thread
        self._launch.values[role.thread_id] = np.clip(number, 0, role.num_threads - 1)
        return frame.where((number >= 0) & (number < role.num_threads))

    def _other(self, turn: _Turn) -> _Turn | None:
        """The next role after one that can go on."""
        place = self._turns.index(turn)
        following = (*self._turns[place + 1 :], *self._turns[:place])
        return next((other for other in following if other.can_go_on()), None)

    def _switch(self, turn: _Turn, other: _Turn) -> None:
        """Let another role go on until it is this one's turn again."""
        self._go(other)
        turn.go.acquire()
        if self._error is not None and not isinstance(self._error, _EndedError):
            raise _EndedError

    def _go(self, turn: _Turn) -> None:
        self._current = turn
        turn.go.release()


def _roles(launch: Lockstep, op: RolesOp, frame: Frame) -> None:
    launch.unit(Roles).run(op, frame)


HANDLERS: Handlers = {RolesOp: _roles}
"""How they run."""
