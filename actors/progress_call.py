"""What a tool body says of how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Awaitable

from ..leases.errors import BadArgumentsError
from .context import RUNNING
from .effect import Recorded


def progress(done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
    """Tell whoever waits for this call, and the people who watch, how far it has come.

    Async tools say `await progress(3, 10)`, plain ones `progress(3, 10)`; it never blocks, and the answer can be
    ignored. The idle timeout of the attempt begins anew. At most a few reports a second travel further, the last one
    always. It proves nothing and is lost with its host: it is for people. Where no worker runs the call, as in a unit
    test of the tool, it does nothing.

    Args:
        done: how much is done, in the tool's own measure.
        total: how much there is to do; None: not known.
        note: a few words; cut to 200 characters. It is stored and shown, so no secrets.

    Raises:
        BadArgumentsError: `done` or `total` is no finite number of 0 or more, or `note` is no text.
    """
    if not _counts(done) or not (total is None or _counts(total)) or not _is_text(note):
        what = "Progress is told as finite numbers of 0 or more, with a text as its note."
        raise BadArgumentsError(what, next_step="Call progress(done, total=None, note='').")
    if (running := RUNNING.get()) is not None:
        running.progress(float(done), None if total is None else float(total), note)
    return Recorded()


def _counts(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _is_text(value: object) -> bool:
    return isinstance(value, str)
