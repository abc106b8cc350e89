"""Heals a damaged row, so that it can be ruled on again; no effect comes of it."""

from __future__ import annotations

from enum import StrEnum

from ..leases.scripts import scripted
from ..leases.store import Store
from .replies import text, words
from .submit import Intent


class RepairReply(StrEnum):
    """What the store says of one damaged row."""

    REPAIRED = "repaired"
    """What it lacked was filled in, with the strictest that it can mean."""
    WHOLE = "whole"
    """It lacks nothing."""
    MISSING = "missing"
    """No such row."""
    HOPELESS = "hopeless"
    """Nothing says which effect it speaks of, or how it stands."""


@scripted("mycelium.ledger", "repair", RepairReply)
def repair_script(  # noqa: PLR0913 - the caller's declaration is told whole
    *, request_id: str, effect: str, effect_class: str, mode: str, keep: int, keep_result: int
) -> None:
    """Stub of `repair.lua`."""


async def repair(store: Store, intent: Intent) -> RepairReply:
    """Heal a damaged row, so that it can be ruled on; no effect comes of it.

    Raises:
        ServerError: the store could not be asked.
    """
    item = intent.item()
    command = repair_script(
        request_id=item.id,
        effect=item.effect,
        effect_class=item.effect_class,
        mode=item.mode,
        keep=item.keep,
        keep_result=item.keep_result,
    )
    return RepairReply(text(words(await store.calls.run(command))[0]))
