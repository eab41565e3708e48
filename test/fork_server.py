"""The tools without their start: a process that has imported them, and forks for each command line.

    python fork_server.py [MODULE..]

imports these modules too, prints the path of a folder with a script for each tool, and serves until its stdin closes. A
script hands its arguments, folder, environment and open files over; a fork runs the tool's `main` on them and gives the
exit code back.
A test of how a tool starts (hash seeds, what it imports, signals) runs the tool itself.
"""

import gc
import importlib
import marshal
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES

TOOLS = ("deplodock-opt", "deplodock", "xdsl-opt", "filecheck")
ADDRESS = "socket"
SCRIPT = f"""#!{sys.executable} -IS
import marshal, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(os.path.join(os.path.dirname(__file__), {ADDRESS!r}))
request = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
server.sendall(request)
code = server.recv(1)
sys.exit(code[0] if code else "the fork server has ended")
"""


def main() -> None:
    """Write the scripts and serve; in a fork, run the tool that was asked for."""
    entries = {entry.name: entry for entry in entry_points(group="console_scripts")}
    mains = {name: entries[name].load() for name in TOOLS}
    for name in ("deplodock.tools.cli.app", *sys.argv[1:]):
        importlib.import_module(name)
    new_context()
    for stage in PASSES:
        stage.load()
    folder = Path(tempfile.mkdtemp())
    for name in TOOLS:
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / ADDRESS))
    listener.listen(64)
    print(folder, flush=True)
    gc.freeze()
    request = serve(listener)
    if request is None:
        shutil.rmtree(folder)
        return
    # The streams know of what kind the server's own files are.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv, workplace, environment = request
    os.chdir(workplace)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.exit(mains[Path(sys.argv[0]).name]())


def serve(listener: socket.socket) -> tuple[list[str], str, dict[str, str]] | None:
    """Fork for each connection: returns its request in the fork, and None here once stdin closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return answer(connection)
        connection.close()
    return None


def answer(connection: socket.socket) -> tuple[list[str], str, dict[str, str]]:
    """Take over the open files of a request and return it, in a fork whose exit code this process sends back."""
    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    for position, file in enumerate(files):
        os.dup2(file, position)
        os.close(file)
    child = os.fork()
    if child == 0:
        connection.close()
        return marshal.loads(request)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(bytes([status % 256]))
    os._exit(0)


if __name__ == "__main__":
    main()
