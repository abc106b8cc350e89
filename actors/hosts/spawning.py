"""Starts a Python process that has one end of a socket pair, and a session of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence


def spawn(
    arguments: Sequence[str], ours: socket.socket, theirs: socket.socket, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start it.

    Args:
        arguments: for this Python.
        ours: the end that stays here; closed if the process cannot be started.
        theirs: the end that it gets, under the same number.
        environment: all of its environment.

    Raises:
        OSError: the process cannot be started.
    """
    try:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a tool prints must not get into the output of a command
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C goes to the control process only, and a kill takes the tools' programs
            env=environment,
        )
    except BaseException:
        ours.close()
        raise
