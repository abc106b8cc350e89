"""Ends the programs that a host's tools started when the host ends, whatever ended it.

The control process does so as well, for the hosts that it outlives. When it is killed itself, the kernel ends the
hosts, but not what they started. So each host has a guardian: a shell outside its process group that reads a pipe,
whose other end only the host has.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

_SHELL = "/bin/sh"
# The first shell ends at once, so that no tool that waits for "any child" waits for the guardian. A background command
# reads from nothing unless it is given another descriptor. When a service is stopped, everything in it may get SIGTERM.
_SCRIPT = 'trap "" HUP INT TERM; exec 3<&0; { read _ <&3; kill -s KILL -- "-$0"; } &'


def set_guardian() -> None:
    """Let this process's group end with this process. Without a shell, or where the group is not its own: nothing."""
    pid = os.getpid()
    if os.getpgrp() != pid or not os.access(_SHELL, os.X_OK):
        return
    watched, held = os.pipe()
    # A fork would hold the pipe open after the host's end. What is started with exec has neither end.
    os.register_at_fork(after_in_child=lambda: os.close(held))
    with suppress(OSError):
        subprocess.run(
            [_SHELL, "-c", _SCRIPT, str(pid)],
            stdin=watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
            check=False,
        )
    os.close(watched)
