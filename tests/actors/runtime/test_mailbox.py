"""A mailbox is bounded, first in first out, and answers everybody at its end."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kit.clock import settle
from mycelium.actors.runtime import Mailbox
from mycelium.leases.errors import ActorStoppedError, MailboxFullError, SettingsError


def _mailbox(capacity: int = 2) -> Mailbox:
    return Mailbox(capacity=capacity, owner="/top/a")


def _take_all(mailbox: Mailbox) -> list[object]:
    taken: list[object] = []
    while (entry := mailbox.take()) is not None:
        taken.append(entry[0])
    return taken


async def test_messages_come_out_in_the_order_that_they_went_in() -> None:
    mailbox = _mailbox()
    mailbox.put_nowait(1)
    mailbox.put_nowait(2)
    assert mailbox.depth == 2
    assert _take_all(mailbox) == [1, 2]
    assert mailbox.depth == 0


async def test_a_full_mailbox_refuses_and_names_its_owner() -> None:
    mailbox = _mailbox(1)
    mailbox.put_nowait(1)
    with pytest.raises(MailboxFullError, match="/top/a"):
        mailbox.put_nowait(2)
    assert _take_all(mailbox) == [1]


async def test_a_message_of_the_runtime_jumps_the_queue_and_needs_no_room() -> None:
    mailbox = _mailbox(1)
    mailbox.put_nowait("user")
    mailbox.put_system("system")
    assert mailbox.depth == 1
    assert _take_all(mailbox) == ["system", "user"]


async def test_put_waits_for_room_and_writers_get_in_in_turn() -> None:
    mailbox = _mailbox(1)
    mailbox.put_nowait(0)
    writers = [asyncio.ensure_future(mailbox.put(number)) for number in (1, 2)]
    await settle()
    taken: list[object] = []
    for _ in range(3):
        taken += _take_all(mailbox)
        await settle()
    assert taken == [0, 1, 2]
    assert all(writer.done() for writer in writers)


async def test_a_cancelled_writer_gives_its_place_to_the_next() -> None:
    mailbox = _mailbox(1)
    mailbox.put_nowait(0)
    first, second = (asyncio.ensure_future(mailbox.put(number)) for number in (1, 2))
    await settle()
    mailbox.take()  # the first writer has been let in, but has not run yet
    first.cancel()
    await settle()
    assert _take_all(mailbox) == [2]
    assert first.cancelled()
    assert second.done()


async def test_a_closed_mailbox_answers_who_waits_and_refuses_who_comes() -> None:
    mailbox = _mailbox(1)
    reply: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    mailbox.put_nowait("asked", reply)
    writer = asyncio.ensure_future(mailbox.put("late"))
    await settle()
    mailbox.close()
    with pytest.raises(ActorStoppedError):
        await reply
    with pytest.raises(ActorStoppedError):
        await writer
    with pytest.raises(ActorStoppedError):
        mailbox.put_nowait("later")
    mailbox.put_system("dropped")
    assert mailbox.take() is None
    assert mailbox.closed


async def test_the_reader_wakes_for_a_message_and_for_a_nudge() -> None:
    mailbox = _mailbox()
    for wake in (partial(mailbox.put_nowait, 1), partial(mailbox.put_system, 2), mailbox.nudge):
        reader = asyncio.ensure_future(mailbox.wait())
        await settle()
        assert not reader.done()
        wake()
        await reader
        _take_all(mailbox)


def test_a_mailbox_without_room_is_refused() -> None:
    with pytest.raises(SettingsError):
        Mailbox(capacity=0, owner="/top/a")
