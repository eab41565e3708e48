"""What ptxas says of kernels."""

from __future__ import annotations

SERIALISED = "(C75"
"""How its remarks about products of warpgroups start that wait for each other, or for waits it puts in."""
