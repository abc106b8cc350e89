"""How a worker process ends, as its exit code."""

from __future__ import annotations

from enum import IntEnum


class WorkerExit(IntEnum):
    """What the exit code of a worker says."""

    STOPPED = 0
    """It was told to stop, or had no work left, and stopped in good order."""
    FAILED = 1
    """A part of it failed too often: the log says which. Start it again."""
    BAD_USAGE = 2
    """Its options, its settings or its app are wrong; nothing was started. To start it again helps nobody."""
    SERVER = 3
    """The server is unreachable, or may not hold a ledger."""
    CUT_OFF = 75
    """It stopped, but the grace ended with calls still running. They were ended, and those that may have sent are
    `unknown` until a provider or a person says what became of them."""
    INTERRUPTED = 130
    """Interrupted from the keyboard before it had begun."""
