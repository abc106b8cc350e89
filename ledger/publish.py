"""Says which tools a worker can run, so that listings can name them; nothing is decided by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ..leases.channel import Channel
from ..leases.scripts import scripted


class PublishReply(StrEnum):
    """What the store says of published tools."""

    OK = "ok"
    """They are listed."""


class PublishedTool(NamedTuple):
    """One tool: its name, and what people may want to know of it as JSON."""

    tool: str
    descriptor: str


@scripted("mycelium.ledger", "publish_tools", PublishReply)
def publish_script(*, known: Sequence[PublishedTool]) -> None:
    """Stub of `publish_tools.lua`."""


async def publish_tools(calls: Channel, descriptors: Mapping[str, str]) -> None:
    """List tools by name; a name that is listed already gets the new descriptor.

    Raises:
        ServerError: the server could not be asked; asking again is safe.
    """
    await calls.run(publish_script(known=[PublishedTool(*item) for item in sorted(descriptors.items())]))
