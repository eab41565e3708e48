"""A process without a GPU that measures candidates, some of which are planted to fail: the threads of a CTA say how."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

from deplodock.tune.requests import Begin, Measure
from deplodock.tune.rounds import Found, measured

HANGS, FAULTS, WRONG, RIGHT_ONCE, TOO_FAST, FASTER, DIES, SLOW = 32, 64, 96, 160, 192, 256, 320, 352
"""Threads of a CTA, by what is planted."""

FLOOR_US = 5.0
TIMES = {TOO_FAST: 4.0, FASTER: 50.0, SLOW: 9000.0}
USUAL_US = 100.0


class PlantedRuns:
    """The runs of a program, whose results are right unless something is planted."""

    def __init__(self, threads: int) -> None:
        self.threads, self.runs = threads, 0

    def poison(self) -> None:
        """Nothing has to be filled."""

    def start(self) -> float:
        """The first run."""
        self.runs += 1
        if self.threads == HANGS:
            time.sleep(1000)
        if self.threads == DIES:
            os._exit(3)
        return TIMES.get(self.threads, USUAL_US)

    def replay(self) -> float:
        """Another run."""
        self.runs += 1
        return TIMES.get(self.threads, USUAL_US)

    def wrong(self, *, is_started: bool = False) -> str:
        """What is planted."""
        is_wrong = self.threads == WRONG or (self.threads == RIGHT_ONCE and self.runs > 1)
        return "element [0] is 1.0, should be 2.0" if is_wrong else ""


def serve(connection: Connection, _: int) -> None:
    """Answer as `gpu.serve`."""
    connection.recv()
    connection.send(None)
    while True:
        request = connection.recv()
        connection.send("" if isinstance(request, Begin) else _measure(request))


def _measure(request: Measure) -> Found:
    own, best = request.program, request.incumbent
    threads = own.plan.launches[0].threads
    if threads == FAULTS:
        return Found("fault", detail="an illegal memory access was encountered")
    incumbent = None if best is None else PlantedRuns(best.program.plan.launches[0].threads)
    return measured(PlantedRuns(threads), incumbent, 0.0 if best is None else best.us, FLOOR_US)
