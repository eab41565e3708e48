"""Compiles a small program when it is imported, by the process that others are forked from.

What PyTorch and our passes import on first use, which takes longer than most problems, is then there in all of them.
To compile takes no GPU, and CUDA does not survive a fork: none of these processes sees one.
"""

from __future__ import annotations

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch
from torch import nn

from deplodock.codegen.cuda import print_module
from deplodock.frontend.capture import export
from deplodock.passes.driver import Level, lower, new_context
from deplodock.tools.suite import worker

_CAPTURED = export(nn.GELU(), (torch.empty(8, device="meta"),), is_called=True)
lower(_CAPTURED.module, new_context(), Level.KERNEL)
print_module(_CAPTURED.module)

__all__ = ["worker"]
