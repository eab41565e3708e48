"""The tools without their start: a process that has imported them, and forks for each command line.

    python fork_server.py FOLDER [MODULE..]

imports these modules too, writes a script for each tool and for Python into the folder, prints a line once it serves,
and serves until its stdin closes. A script hands its arguments, folder, environment and open files over; a fork runs
the tool's `main` on them, gives the exit code back and ends at once: to take Python and all that it has imported down
takes longer than most tests. A fork whose script is killed ends, too.
A test of how a tool starts (hash seeds, what it imports, signals) runs the tool itself.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from deplodock.passes.pipeline import PASSES
from deplodock.tools.opt import OptMain

TOOLS = ("deplodock-opt", "deplodock", "xdsl-opt", "filecheck")
ADDRESS = "socket"
SCRIPT = f"""#!{sys.executable} -IS
import marshal, posix, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket
server = socket(AF_UNIX)
server.connect(__file__.rpartition("/")[0] + "/{ADDRESS}")
request = marshal.dumps((sys.argv, posix.getcwd(), posix.environ))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
server.sendmsg([len(request).to_bytes(4, "big")], [(SOL_SOCKET, SCM_RIGHTS, files)])
server.sendall(request)
code = server.recv(1)
posix._exit(code[0] if code else posix.write(2, b"the fork server has ended\\n") and 1)
"""
"""The modules `os` and `socket` would take as long to import as Python to start, and Python to end nearly so."""


def main() -> None:
    """Write the scripts and serve; in a fork, run the tool that was asked for."""
    entries = {entry.name: entry for entry in entry_points(group="console_scripts")}
    mains = {name: entries[name].load() for name in TOOLS} | {"python": python}
    for name in ("deplodock.tools.cli.app", *sys.argv[2:]):
        importlib.import_module(name)
    for stage in PASSES:
        stage.load()
    warm_up()
    folder = Path(sys.argv[1])
    for name in mains:
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / f"{ADDRESS}.new"))
    listener.listen(64)
    (folder / f"{ADDRESS}.new").rename(folder / ADDRESS)
    print("serving", flush=True)
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    request = serve(listener)
    if request is None:
        return
    connection, sys.argv, workplace, environment = request
    # The streams know of what kind the server's own files are.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(workplace)
    os.environb.clear()
    os.environb.update(environment)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    code = exit_code(mains[Path(sys.argv[0]).name])
    connection.sendall(bytes([code % 256]))
    os._exit(code % 256)


def warm_up() -> None:
    """Run passes and evaluators once, as forks would each make what is made at the first use of a class or operation.

    Whether they are right, the test of that file says.
    """
    program = Path(__file__).parent / "passes/kernel/lower_scan.mlir"
    passes = ["-p", "materialize,place-barriers", "--check-semantics", "--split-input-file"]
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception):
        OptMain([str(program), *passes, "-o", os.devnull]).run()


def python() -> None:
    """Run `python FILE ..`, `python -m MODULE ..` or `python -c CODE ..`.

    PyTorch, if it is there, reads anew what its logs are to show.
    """
    if (logs := sys.modules.get("torch._logging._internal")) is not None:
        logs.LOG_TRACE_HANDLER = None
        logs._init_logs()
    sys.argv.pop(0)
    if sys.argv[0] == "-m":
        sys.argv.pop(0)
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif sys.argv[0] == "-c":
        exec(sys.argv.pop(1), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(sys.argv[0]).parent.absolute()))
        runpy.run_path(sys.argv[0], run_name="__main__")


Request = tuple[socket.socket, list[str], str, dict[bytes, bytes]]
"""Where the exit code is sent; the arguments, the folder and the environment."""


def serve(listener: socket.socket) -> Request | None:
    """Fork for each connection: returns its request in the fork, and None here once stdin closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return taken(connection)
        connection.close()
    return None


def taken(connection: socket.socket) -> Request:
    """The request of a connection, whose open files become those of this process."""
    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    for position, file in enumerate(files):
        os.dup2(file, position)
        os.close(file)
    # The end of the script is a signal, which ends this process.
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETFL, os.O_ASYNC)
    return connection, *marshal.loads(request)


def exit_code(tool: Callable[[], object]) -> int:
    """Run a tool and what it wants to run at the end: the code with which Python would exit."""
    try:
        code = tool()
    except SystemExit as raised:
        code = raised.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code or 0


if __name__ == "__main__":
    main()
