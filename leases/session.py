"""A session: one holder's lease on being alive. Whatever it holds lives and dies with it.

The server is the authority: a session lives while its deadline lies in the future there. The holder does not see that
deadline; it trusts itself until (time before sending its last good renewal) + TTL − margin, on its own clock, which is
earlier. An error on the way is not a loss: only the server's word is. When the holder's own deadline passes it stops to
trust itself; a renewal that still succeeds restores trust, since the session was alive all the time.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from .clock import Clock
from .connection import Reply
from .errors import EpochChangedError, ServerError, ServerUnavailableError, SessionLostError, SettingsError
from .scripts import scripted
from .store import Store


class OpenReply(StrEnum):
    """What `open_session` answers."""

    OPENED = "opened"
    """The session is open; so it was if the same boot asked before."""
    EPOCH = "epoch"
    """The data set is in another epoch than the caller."""
    TAKEN = "taken"
    """The id belongs to another boot, or its session was declared dead."""


class RenewReply(StrEnum):
    """What `renew_session` answers."""

    RENEWED = "renewed"
    """The deadline is at least a TTL away."""
    LOST = "lost"
    """The session has ended: its deadline passed, it was declared dead, or it was closed."""
    EPOCH = "epoch"
    """The data set is in another epoch: the session is of a life that ended."""


class DescribeReply(StrEnum):
    """What `describe_session` answers."""

    TOLD = "told"
    """People read it so from now on."""
    GONE = "gone"
    """There is no such session (any more), or it was declared dead: nothing was written."""


class CloseReply(StrEnum):
    """What `close_session` answers."""

    CLOSED = "closed"
    """The session ended, holding nothing."""
    HOLDING = "holding"
    """It still holds transitions: nothing was changed."""
    GONE = "gone"
    """There is no such session (any more), or it was declared dead. A repeated close hears this."""


@scripted("mycelium.leases", "open_session", OpenReply)
def open_session(  # noqa: PLR0913, PLR0917 - the columns of its row
    session: str, epoch: int, boot: str, ttl_ms: int, grace_ms: int, name: str, info: str | bytes
) -> None:
    """Open a session."""


@scripted("mycelium.leases", "renew_session", RenewReply)
def renew_session(session: str, epoch: int, ttl_ms: int) -> None:
    """Prolong a session that is alive."""


@scripted("mycelium.leases", "describe_session", DescribeReply)
def describe_session(session: str, info: str | bytes) -> None:
    """Tell people something new of a session."""


@scripted("mycelium.leases", "close_session", CloseReply)
def close_session(session: str) -> None:
    """End a session that holds nothing."""


LEAST_S = 0.001
"""Below it, no server answers in time."""
MOST_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The times of a session, in seconds: three whole tries to renew fit into a TTL (T3).

    Attributes:
        ttl_s: how long a session lives after a renewal.
        renew_every_s: how often the holder renews.
        call_timeout_s: how long one renewal may take.
        margin_s: how much earlier than the server the holder stops trusting itself.
        grace_s: for how long after its deadline a session whose end nobody saw is not taken for dead: a lapse alone is
            no evidence of death, and what it held is left alone for so long.

    Raises:
        SettingsError: a time is not positive, grace_s is negative, or
            ttl_s < 3 × renew_every_s + call_timeout_s + margin_s.
    """

    ttl_s: float = 15.0
    renew_every_s: float = 3.0
    call_timeout_s: float = 1.0
    margin_s: float = 2.0
    grace_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse contradictions."""
        for name in ("ttl_s", "renew_every_s", "call_timeout_s", "margin_s"):
            if not LEAST_S <= getattr(self, name) <= MOST_S:
                what = f"{name} is {getattr(self, name)}."
                raise SettingsError(what, next_step=f"Give {name} {LEAST_S:g} to {MOST_S:g} seconds.")
        if not self.grace_s >= 0:
            raise SettingsError(f"grace_s is {self.grace_s}.", next_step="Give grace_s 0 or more seconds.")
        least = 3 * self.renew_every_s + self.call_timeout_s + self.margin_s
        if self.ttl_s < least:
            what = f"ttl_s {self.ttl_s:g} < 3 × renew_every_s + call_timeout_s + margin_s = {least:g}."
            raise SettingsError(what, next_step=f"Raise ttl_s to {least:g} at least, or renew more often.")

    @property
    def ttl_ms(self) -> int:
        """The TTL as the server takes it."""
        return int(self.ttl_s * 1000)


class Standing(StrEnum):
    """How a renewal ended."""

    RENEWED = "renewed"
    """The server prolonged the session."""
    LOST = "lost"
    """The server says that it has ended. Final."""
    UNREACHABLE = "unreachable"
    """No answer, or a refusal for now: the session may well be alive."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What one renewal found.

    Attributes:
        standing: how it ended.
        gap_s: seconds from sending the last good renewal to sending this one.
        held: how many transitions the session holds; 0 unless renewed.
        why: what was in the way; empty when renewed.
    """

    standing: Standing
    gap_s: float
    held: int = 0
    why: str = ""


class Session:
    """One holder's session, opened once.

    Attributes:
        lost: set when the server has said that the session ended. It is never cleared.
        epoch: the epoch that it was opened in; 0 before.
    """

    def __init__(
        self, store: Store, settings: SessionSettings, clock: Clock, *, name: str = "", info: bytes = b"{}"
    ) -> None:
        self.settings = settings
        self.name = name
        self.lost = asyncio.Event()
        self.epoch = 0
        self._store = store
        self._clock = clock
        self._info = info
        self._id = ""
        self._good_at_s: float | None = None
        self._closing = False
        self._closed = False

    @property
    def id(self) -> str:
        """The session's id, minted by `open`; the only thing of it that is ever compared."""
        return self._id

    @property
    def trusted_until_s(self) -> float:
        """The instant on the holder's clock from which it starts no dispatch; minus infinity when it may start none."""
        if self._good_at_s is None or self._closing or self.lost.is_set():
            return float("-inf")
        return self._good_at_s + self.settings.ttl_s - self.settings.margin_s

    def remaining_trust_s(self) -> float:
        """Seconds of trust that are left; 0 when there is none."""
        return max(0.0, self.trusted_until_s - self._clock.now_s())

    def trusted(self) -> bool:
        """Tell whether the holder may start a dispatch now."""
        return self._clock.now_s() < self.trusted_until_s

    async def open(self) -> None:
        """Mint an id and open the session.

        Raises:
            EpochChangedError: the data set changes its epoch faster than a session can be opened in it.
            SessionLostError: this session was opened before; make another one.
            ServerError: as `Channel.run`.
        """
        if self._id:
            raise SessionLostError("A session is opened once.", next_step="Make a new session.")
        for _ in range(3):
            session_id, boot, epoch = uuid.uuid4().hex, uuid.uuid4().hex, self._store.epoch
            sent_at_s = self._clock.now_s()
            command = open_session(
                session=session_id,
                epoch=epoch,
                boot=boot,
                ttl_ms=self.settings.ttl_ms,
                grace_ms=round(self.settings.grace_s * 1000),
                name=self.name,
                info=self._info,
            )
            word, _ = _pair(await self._store.renewals.run(command, patience_s=self.settings.ttl_s))
            if word == OpenReply.OPENED:
                self._id, self.epoch, self._good_at_s = session_id, epoch, sent_at_s
                return
            await self._store.refresh_epoch()
        what = "No session could be opened: the data set is in another epoch each time."
        raise EpochChangedError(what, next_step="Look whether several servers stand behind the one address.")

    async def renew_once(self) -> Renewal:
        """Renew, within the call timeout. Never raises for a server that is away."""
        sent_at_s = self._clock.now_s()
        gap_s = sent_at_s - (self._good_at_s if self._good_at_s is not None else sent_at_s)
        if self._good_at_s is None or self._closed or self.lost.is_set():
            return Renewal(Standing.LOST, gap_s, why="the session is not open")
        command = renew_session(session=self._id, epoch=self.epoch, ttl_ms=self.settings.ttl_ms)
        try:
            word, held = _pair(await self._store.renewals.run(command, patience_s=self.settings.call_timeout_s))
        except ServerError as error:
            return Renewal(Standing.UNREACHABLE, gap_s, why=str(error))
        if word == RenewReply.RENEWED:
            # Two renewals may overtake each other: trust never goes back.
            self._good_at_s = max(self._good_at_s, sent_at_s)
            return Renewal(Standing.RENEWED, gap_s, held=held)
        self.lost.set()
        why = "its deadline passed" if word == RenewReply.LOST else "the data set is in another epoch"
        return Renewal(Standing.LOST, gap_s, why=why)

    async def describe(self, info: bytes, *, patience_s: float = 2.0) -> DescribeReply:
        """Tell people something new of the holder.

        Raises:
            ServerError: as `Channel.run`; what people read may be the old or the new then.
        """
        self._info = info
        command = describe_session(session=self._id, info=info)
        word, _ = _pair(await self._store.calls.run(command, patience_s=patience_s))
        return DescribeReply(word)

    async def close(self, *, patience_s: float = 2.0) -> CloseReply:
        """End the session in good order. From the first moment on the holder trusts itself no more.

        Args:
            patience_s: how long to ask a server that is away; a session that is not closed runs out by itself.

        Returns:
            `HOLDING` if it still holds something: it may be renewed while that is released, and then closed; else it
            ends by its TTL. `GONE` also when an earlier try of this close did it.

        Raises:
            ServerUnavailableError: the session was never opened.
            ServerError: as `Channel.run`.
        """
        if not self._id:
            raise ServerUnavailableError("The session is not open.", next_step="Nothing is to be closed.")
        self._closing = True
        word, _ = _pair(await self._store.renewals.run(close_session(session=self._id), patience_s=patience_s))
        self._closed = word != CloseReply.HOLDING
        return CloseReply(word)


def _pair(reply: Reply) -> tuple[str, int]:
    word, number = cast("tuple[bytes, bytes | int]", reply)
    return word.decode(), int(number)
