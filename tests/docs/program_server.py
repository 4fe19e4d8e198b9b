"""The program `labelprism`, kept warm: a process that has everything loaded forks for each command.

Pages call the program some fifty times, and each time importing SciPy and scikit-learn would take longer than what is
asked for. The client, a script of a few lines, hands over its arguments, environment, folder and streams, and ends with
the exit code of the command; when the client is killed, so is the command.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

_CLIENT = """\
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps({{"argv": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(request)
os._exit((connection.recv(1) or b"\\x89")[0])
"""


def start(folder: Path, with_sample: bool) -> subprocess.Popen[bytes]:
    """Start the server, and write the program `labelprism`, its client, into a folder.

    Parameters
    ----------
    folder : Path
    with_sample : bool
        Whether the Tate collection is to be `tate_sample`.
    """
    address = str(folder / "socket")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    client, program = folder / "client.py", folder / "labelprism"
    client.write_text(_CLIENT.format(address=address))
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(client))} "$@"\n')
    program.chmod(0o755)
    command = [sys.executable, __file__, str(listening.fileno()), str(int(with_sample))]
    server = subprocess.Popen(command, pass_fds=[listening.fileno()], start_new_session=True)
    listening.close()
    return server


def serve(listening: socket.socket) -> None:
    """Fork for each client, until killed."""
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            os._exit(_answered(connection))
        connection.close()


def _answered(connection: socket.socket) -> int:
    """Run the command of a client in its place, and tell it the exit code."""
    from labelprism.cli import main

    length, streams, _, _ = socket.recv_fds(connection, 8, 3)
    request = json.loads(connection.recv(int.from_bytes(length, "big"), socket.MSG_WAITALL))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    code = main(request["argv"])
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(bytes([code]))
    return code


def _end_with(connection: socket.socket) -> None:
    """End this process when the client is gone: it sends nothing more, so that only its end wakes this up."""
    connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    import sklearn.svm  # noqa: F401 - loaded once, for all commands

    import labelprism.demo
    import labelprism.estimator  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    if sys.argv[2] == "1":
        import tate_sample

        for module in tate_sample.replaced_modules():
            module.load_tate = tate_sample.sample  # type: ignore[attr-defined]
    serve(socket.socket(fileno=int(sys.argv[1])))
