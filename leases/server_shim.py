"""Becomes the embedded server, tied to the life of the process that started it. Run as a script, never imported.

Called as `server_shim.py LAUNCHER_PID WATCH_FD PROGRAM`, with the configuration as input. It exists so that
the launcher needs no `preexec_fn`, which runs Python between fork and exec and can deadlock in a process with threads.
It imports nothing of the package: it runs isolated and must be quick.

The server is ended with SIGKILL, not SIGTERM, when its launcher dies. A server looks at SIGTERM only between commands:
one that is held up in an endless script would stay behind as an orphan that owns the data.
With `appendfsync always` SIGKILL loses nothing that was acknowledged: the disk had it before the answer. With
`everysec` it can lose what a slow disk held up in the server; who chose that accepted to lose the last second or two.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_HIGHEST_FD = 4096


def _die_with_parent(launcher_pid: int) -> None:
    """Linux: the kernel ends us with our launcher. The request survives exec."""
    import ctypes  # noqa: PLC0415 - only this way needs it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit("the kernel refused the parent-death signal")
    # The launcher may have died before the request was in place: then no signal ever comes.
    if os.getppid() != launcher_pid:
        sys.exit("the launcher ended before its server started")


def _watch_pipe(watch_fd: int) -> None:
    """Elsewhere: a child of ours waits for the end of a pipe that the launcher alone holds open."""
    server_pid = os.getpid()
    if os.fork():
        os.close(watch_fd)
        return
    # The lock on the data directory must not outlive the server in here.
    os.closerange(3, watch_fd)
    os.closerange(watch_fd + 1, _HIGHEST_FD)
    while os.read(watch_fd, 1):
        pass
    # A server that is gone already has made us somebody else's child: its pid may be another process by now.
    if os.getppid() == server_pid:
        os.kill(server_pid, signal.SIGKILL)
    os._exit(0)


def main() -> None:
    """Tie the knot, then become the server."""
    launcher_pid, watch_fd, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if watch_fd < 0:
        _die_with_parent(launcher_pid)
    else:
        _watch_pipe(watch_fd)
    os.execv(program, [program, "-"])  # noqa: S606 - this is what we are for


if __name__ == "__main__":
    main()
