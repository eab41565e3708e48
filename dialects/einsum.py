"""The equation of an einsum: which label each dimension of the operands and of the result has.

Labels are letters; those of an ellipsis are `.0`, `.1`, ... from the last dimension on.
"""

from __future__ import annotations

from collections.abc import Sequence

from deplodock.dialects.shapes import Shape


def einsum_labels(equation: str, shapes: Sequence[Shape]) -> tuple[list[list[str]], list[str], dict[str, int]]:
    """The labels of the operands of these shapes and of the result, and the extent of each label.

    Raises:
        ValueError: the equation does not fit the shapes.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"the equation '{equation}' names {len(terms)} operands of {len(shapes)}")
    inputs = [_labels(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    extents = _extents(inputs, shapes)
    hidden = sorted((label for label in extents if label.startswith(".")), key=lambda label: -int(label[1:]))
    if arrow:
        shown = len(hidden) if "..." in right else 0
        output = _labels(right, len(right.replace("...", "")) + shown)
    else:
        output = [*hidden, *_implied(inputs)]
    if len(set(output)) != len(output) or any(label not in extents for label in output):
        raise ValueError(f"the output labels {''.join(output)} must each be one of an operand, and differ")
    return inputs, output, extents


def _extents(inputs: Sequence[Sequence[str]], shapes: Sequence[Shape]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, extent in zip(labels, shape, strict=True):
            if extents.get(label, 1) != 1 and extent not in (1, extents[label]):
                raise ValueError(f"the label '{label}' has the extents {extents[label]} and {extent}")
            extents[label] = extent if extents.get(label, 1) == 1 else extents[label]
    return extents


def _labels(term: str, rank: int) -> list[str]:
    """The label of each dimension."""
    before, ellipsis, after = term.partition("...")
    hidden = rank - len(before) - len(after)
    if before + after and not (before + after).isalpha():
        raise ValueError(f"the term '{term}' of the equation may hold letters and '...' only")
    if hidden < 0 or (hidden and not ellipsis):
        raise ValueError(f"the term '{term}' of the equation does not name {rank} dimensions")
    return [*before, *(f".{i}" for i in reversed(range(hidden))), *after]


def _implied(inputs: Sequence[Sequence[str]]) -> list[str]:
    """The labels of an output that the equation does not spell out: those that appear once, in order."""
    every = [label for labels in inputs for label in labels if not label.startswith(".")]
    return sorted(label for label in every if every.count(label) == 1)
