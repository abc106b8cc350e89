"""The epoch: one life of the data set. It ends where history may have been lost, and its fences with it (S5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from .connection import Reply
from .errors import ServerUnfitError
from .scripts import scripted

SCHEMA = "1"


class FoundReply(StrEnum):
    """How the data set was met."""

    FOUNDED = "founded"
    """It was empty: this is its first epoch."""
    ADOPTED = "adopted"
    """The server still runs that last wrote it: nothing can have been lost in between."""
    ADVANCED = "advanced"
    """Another run of a server holds it (a restart, a failover): a new epoch began."""
    SCHEMA = "schema"
    """It was written by an incompatible version."""


@scripted("mycelium.leases", "found", FoundReply)
def found(run_id: str) -> None:
    """Found, adopt or advance. Asked again it answers `adopted`, with the same epoch and fence."""


@dataclass(frozen=True, slots=True)
class Footing:
    """What a process stands on after it has met the data set."""

    word: FoundReply
    epoch: int
    fence: str


def read_footing(reply: Reply) -> Footing:
    """Read the reply of `found`.

    Raises:
        ServerUnfitError: the data set has another schema.
    """
    word, epoch, fence, schema = (cast("bytes", part).decode() for part in cast("list[object]", reply))
    if word == FoundReply.SCHEMA:
        what = f"The data set has schema {schema or '(none)'}; this version reads and writes schema {SCHEMA}."
        raise ServerUnfitError(what, next_step="Use another namespace, or the version that wrote it.")
    return Footing(FoundReply(word), int(epoch), fence)
