"""What an operator may write of queues, and what is refused with a way out."""

from __future__ import annotations

import pytest

from mycelium.actors.worker.queues import QueueShare, parse_queues
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.leases.errors import SettingsError


@pytest.mark.parametrize(
    "text,shares",
    [
        ("default", (QueueShare(),)),
        ("mail:3,default", (QueueShare("mail", 3), QueueShare())),
        (" mail:3@10 , default@2 ", (QueueShare("mail", 3, 10), QueueShare("default", 1, 2))),
        ("a.b-c_1:1000", (QueueShare("a.b-c_1", 1000),)),
    ],
)
def test_queues_are_read_with_weights_and_bounds(text: str, shares: tuple[QueueShare, ...]) -> None:
    assert parse_queues(text) == shares
    assert parse_queues(",".join(map(str, shares))) == shares


@pytest.mark.parametrize(
    "text", ["", ",", "a,,b", "a:", "a@", "a:0", "a:1001", "a@0", "a:x", "a:-1", "A", "a b", "a:1:2", "*", "a@1:3"]
)
def test_what_is_no_queue_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_queues(text)


def test_a_queue_is_named_one_time() -> None:
    with pytest.raises(SettingsError, match="'a' is named twice"):
        parse_queues("a:3,b,a")


def test_a_worker_without_queues_is_refused() -> None:
    with pytest.raises(SettingsError, match="no queue"):
        WorkerSettings(app="x", queues=())
