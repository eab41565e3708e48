"""Draws a whole program: some inputs, some expressions on what there is, one result or several."""

from __future__ import annotations

import random

import torch

from deplodock.fuzz.drawing import DTYPES, FLOATS, Drawer
from deplodock.fuzz.families import FAMILIES, family, pointwise
from deplodock.fuzz.program import Expression
from deplodock.fuzz.slices import written
from deplodock.fuzz.ways import Calling

MOST_STEPS = 6
TRIES = 8
"""How often a step is drawn again where PyTorch refuses it."""

CONTRACTIONS = FAMILIES[:4]

MOST_CALLED_STEPS = 3
"""The steps of programs that are called, too, of which each takes longer."""

WRITTEN = 0.8
"""The share of programs that are called and not differentiated that write in place."""


def draw_expression(draw: random.Random, way: Calling | None = None) -> Expression:
    """A random program of at least one expression; its values are those that PyTorch gives on drawn inputs.

    One that is called in a way may write into its arguments, which may be views that share memory.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.randrange(2**16))
        drawer = Drawer(draw, is_called=way is not None)
        if way is Calling.TRAINED:
            # Gradients of convolutions multiply the zeros beside their inputs (numerics.md).
            drawer.has_specials = False
            drawer.input(drawer.shape(1), draw.choice(FLOATS))
        # Contractions have the schedules with the most rules: half of the programs have one.
        wanted = draw.choice(CONTRACTIONS)[1] if drawer.chance(0.5) else None
        if drawer.chance(0.7):
            drawer.input(drawer.shape(1), draw.choice(DTYPES))
            drawer.try_node(pointwise)
        if way in (Calling.SAVED, Calling.COMPILED) and drawer.chance(WRITTEN):
            any(drawer.try_node(written) for _ in range(TRIES))
        steps = draw.randint(1, MOST_STEPS if way is None else MOST_CALLED_STEPS)
        place = draw.randrange(steps)
        for step in range(steps):
            made = wanted if step == place and wanted is not None else family(drawer)
            for _ in range(TRIES):
                if drawer.try_node(made):
                    break
                made = family(drawer)
        return _finished(drawer)


def _finished(drawer: Drawer) -> Expression:
    """The program that gives the last value, and now and then others that nothing uses."""
    while not any(not node.is_input for node in drawer.pool):
        drawer.try_node(family(drawer))
    made = [node for node in drawer.pool if not node.is_input]
    unused = [node for node in made[:-1] if node not in drawer.used]
    kept = [node for node in unused if drawer.chance(0.7)][:3]
    return Expression((made[-1], *kept))
