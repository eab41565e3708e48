"""How `lit test` runs the tests in `test/**/*.mlir`; `config` and `lit_config` are given by lit.

The tools run as forks of one process, see test/fork_server.py.

Substitutions besides lit's own:
    %roundtrip   print %s, read the generic form of that back, compare both pretty texts, check them with filecheck
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lit.formats

from deplodock.runtime.falls import DEBUG
from deplodock.runtime.lowering import ALWAYS

root = Path(__file__).parent

config.name = "deplodock"
config.test_format = lit.formats.ShTest()
config.suffixes = [".mlir"]
config.test_source_root = str(root)
config.test_exec_root = str(root / ".lit")
config.maxIndividualTestTime = 120

tools = tempfile.mkdtemp()
server = subprocess.Popen(
    [sys.executable, str(root / "test" / "fork_server.py"), tools], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
server.stdout.readline() or lit_config.fatal("the fork server does not start")
atexit.register(shutil.rmtree, tools)
atexit.register(server.stdin.close)
config.environment["PATH"] = os.pathsep.join([tools, str(Path(sys.executable).parent), os.environ["PATH"]])
config.environment["COLUMNS"] = "120"
config.environment[ALWAYS] = "1"
config.environment[DEBUG] = "1"

config.substitutions.append(
    (
        "%roundtrip",
        "deplodock-opt %s --split-input-file -o %t.pretty.mlir"
        " && deplodock-opt %t.pretty.mlir --split-input-file --print-op-generic -o %t.generic.mlir"
        " && deplodock-opt %t.generic.mlir --split-input-file -o %t.again.mlir"
        " && diff %t.pretty.mlir %t.again.mlir"
        " && filecheck %s --input-file %t.pretty.mlir",
    )
)
