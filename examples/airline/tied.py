"""Becomes another program that ends when the process that started it ends. Run as a script, never imported.

Called as `tied.py STARTER_PID PROGRAM ARGUMENT…`. The demo starts processes, and not even a kill of the demo may leave
one of them behind. It imports nothing of the package: it runs isolated and must be quick.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for the signal, then become the program. The request survives exec."""
    starter_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - only this way needs it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The starter may have ended before the request was in place: then no signal ever comes.
        if os.getppid() != starter_pid:
            sys.exit("the process that started this one has ended")
    os.execv(command[0], command)  # noqa: S606 - this is what we are for


if __name__ == "__main__":
    main()
