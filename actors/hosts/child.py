"""The process that runs tools: `python -m mycelium.actors.hosts.child FD CONTROL_PID SLOTS MAX_RESULT_BYTES TOOLS`.

It is started by the control process, which owns the other end of the socket FD. It has no credentials, no connection
but that socket, and it ends when the control process ends: by the parent-death signal, or at end of file on the socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from .guardian import set_guardian

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"


def main() -> None:
    """Tie this process to its parent, then serve."""
    descriptor, control_pid, slots, max_result_bytes, spec = sys.argv[1:]
    tie_to(int(control_pid))
    set_guardian()  # before this process volunteers for the OOM killer: the guardian should not
    leave_signals_to_control()
    volunteer_for_the_oom_killer()
    # Only now: a parent that dies during these imports must not leave this process behind.
    from .serving import serve  # noqa: PLC0415

    serve(int(descriptor), spec, slots=int(slots), max_result_bytes=int(max_result_bytes))


def tie_to(control_pid: int) -> None:
    """Die with the parent; and end now if it has died already.

    The signal comes when the *thread* that started this process ends, so hosts belong to a thread that outlives them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != control_pid:
        os._exit(0)


def leave_signals_to_control() -> None:
    """Do nothing on SIGINT and SIGTERM: the control process decides when a host ends.

    A handler, not SIG_IGN: programs that a tool starts get the default back, so `terminate()` works on them.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    pass


def volunteer_for_the_oom_killer() -> None:
    """Be taken before the control process when memory runs out. Programs that a tool starts inherit this."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, encoding="ascii")


if __name__ == "__main__":
    main()
