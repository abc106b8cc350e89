"""The server as one process sees it: its connections, its facts, and the epoch that this process acts in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from .address import embedded_directory, is_embedded, make_pool, normal_url, spoken_address
from .channel import Channel
from .connection import Wire, pack
from .embedded import EmbeddedServer, default_data_dir
from .epoch import Footing, FoundReply, found, read_footing
from .errors import MyceliumError, ServerUnavailableError, ServerUnfitError, SettingsError
from .faults import Fault, classify_unsent, spoken
from .keys import Keyspace
from .requirements import ServerFacts, check_server
from .subscription import Heard, Resubscribed, listen
from .tool_host import below_a_tool_host

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How the server is spoken to; seconds.

    Attributes:
        connect_timeout_s: how long `open_store` tries, and how long one connection may take later.
        call_timeout_s: how long one batch of job traffic may take.
        renew_timeout_s: the same for renewals, which have a connection of their own.
        patience_s: how long a call is repeated by default; None is for ever.
        lanes: batches of job traffic in flight.
        now_ms: what scripts take for the time; 0, but in tests, is the server's own.

    Raises:
        SettingsError: a value is not positive.
    """

    connect_timeout_s: float = 5.0
    call_timeout_s: float = 5.0
    renew_timeout_s: float = 1.0
    patience_s: float | None = 30.0
    lanes: int = 2
    now_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        for name in ("connect_timeout_s", "call_timeout_s", "renew_timeout_s", "patience_s", "lanes"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise SettingsError(f"{name} is {value}.", next_step=f"Give {name} a positive value.")


class Store:
    """Made by `open_store`, never directly.

    Attributes:
        url: where the server is; may hold a password, so it is never logged. `address` is its name for people.
        keys: the names of the namespace.
        calls: the channel of job traffic.
        renewals: the channel of renewals: one lane, so that no batch of jobs is ever in front of one.
        facts: what the server said of itself at open.
        epoch: the life of the data set that this process acts in.
    """

    def __init__(self, url: str, keys: Keyspace, settings: StoreSettings, embedded: EmbeddedServer | None) -> None:
        self.url = url
        self.address = spoken_address(url)
        self.keys = keys
        self.settings = settings
        self.epoch = 0
        self.facts: ServerFacts
        self._run_id = ""
        self._embedded = embedded
        self._reviving = asyncio.Lock()
        self._closing = False
        self._clients: list[Redis] = []
        self.calls = self._channel("calls", settings.call_timeout_s, settings.lanes, settings.patience_s)
        self.renewals = self._channel("renewals", settings.renew_timeout_s, 1, settings.renew_timeout_s)
        self._ears = self._client("ears", settings.call_timeout_s)

    async def refresh_epoch(self) -> int:
        """Meet the data set again, and give the epoch; done by itself on each new connection to another server run.

        Raises:
            ServerError: as `Channel.run`; ServerUnfitError also for another schema.
        """
        info = await self.calls.read("INFO", "server") if self._run_id else b""
        run_id = _run_id(info) or self._run_id
        self._stand_on(read_footing(await self.calls.run(found(run_id=run_id))), run_id)
        return self.epoch

    def listen(self, *channels: str) -> AsyncGenerator[Heard | Resubscribed, None]:
        """Hear what is published, for ever. It begins with `Resubscribed`, and so after each reconnect: poll then."""
        return listen(self._ears, *channels)

    async def aclose(self) -> None:
        """Close every connection; then the embedded server, if this store started it."""
        self._closing = True
        await self.renewals.aclose()
        await self.calls.aclose()
        for client in self._clients:
            with suppress(RedisError, OSError):
                await client.aclose()
                await client.connection_pool.disconnect()
        if self._embedded is not None:
            await self._embedded.stop_async()

    async def meet(self) -> None:
        """Wait for the server within the connect time, check what it is, and meet its data set.

        Raises:
            ServerUnavailableError: it did not answer in time.
            ServerUnfitError: it may not hold a ledger, or refuses this client.
        """
        last, cause = "no answer", None
        try:
            async with asyncio.timeout(self.settings.connect_timeout_s):
                while True:
                    try:
                        self.facts = await check_server(self._clients[0])
                        break
                    except (RedisError, OSError) as error:
                        last, cause = spoken(error), error
                        if classify_unsent(error) is Fault.REFUSED:
                            what = f"The server at {self.address} refuses this client: {last}"
                            raise ServerUnfitError(
                                what, next_step="Correct the user, the password or its rights."
                            ) from error
                    await asyncio.sleep(0.05)
        except TimeoutError:
            what = f"No server answered at {self.address} within {self.settings.connect_timeout_s:g} s ({last})."
            raise ServerUnavailableError(what, next_step="Start the server or correct the URL.") from cause
        self._run_id = self.facts.run_id
        await self.refresh_epoch()

    async def _greet(self, wire: Wire) -> None:
        """Settle, before anything else goes over a new connection, that the epoch is that of this server run."""
        if not self._run_id:
            return
        run_id = _run_id(_good((await wire.exchange([pack(("INFO", "server"))]))[0]))
        if not run_id or run_id == self._run_id:
            return
        command = found(run_id=run_id)
        line = pack(("EVAL", command.script.source, 1, self.keys.tag, self.settings.now_ms, *command.args))
        self._stand_on(read_footing(cast("Any", _good((await wire.exchange([line]))[0]))), run_id)

    async def _revive(self) -> None:
        """Start the embedded server again: it ends with whichever process started it, and others may need it still."""
        async with self._reviving:
            embedded = self._embedded
            if embedded is None or self._closing or await asyncio.to_thread(lambda: embedded.alive):
                return
            try:
                if embedded.owned:
                    await embedded.restart_async()
                else:
                    self._embedded = await EmbeddedServer.join_or_start_async(embedded.data_dir)
            except MyceliumError as error:
                log.warning("the embedded server does not come back yet: %s", error)

    def _stand_on(self, footing: Footing, run_id: str) -> None:
        # The number only grows, but where the data set began again: then the new one counts, whatever it is.
        if footing.word is FoundReply.FOUNDED or footing.epoch > self.epoch:
            self.epoch = footing.epoch
        self._run_id = run_id

    def _channel(self, name: str, call_timeout_s: float, lanes: int, patience_s: float | None) -> Channel:
        return Channel(
            self._client(name, call_timeout_s),
            self.keys,
            name=name,
            call_timeout_s=call_timeout_s,
            lanes=lanes,
            now_ms=self.settings.now_ms,
            patience_s=patience_s,
            greet=self._greet,
            revive=self._revive if self._embedded is not None else None,
        )

    def _client(self, name: str, call_timeout_s: float) -> Redis:
        pool = make_pool(
            self.url,
            client_name=f"mycelium:{self.keys.namespace}:{name}",
            call_timeout_s=call_timeout_s,
            # A renewal must not wait behind a connection attempt that takes longer than the renewal may.
            connect_timeout_s=min(call_timeout_s, self.settings.connect_timeout_s),
        )
        client = Redis(connection_pool=pool)
        self._clients.append(client)
        return client


async def open_store(
    url: str | None = None, *, namespace: str = "mycelium", settings: StoreSettings | None = None
) -> Store:
    """Connect to a server, check that it may hold a ledger, and meet its data set.

    Args:
        url: `redis://`, `rediss://`, `valkey://`, `valkeys://`, `unix:///path`, or `embedded:///directory`; None is the
            embedded server in its default directory.
        namespace: the hash tag of every key.
        settings: time-outs and lanes.

    Raises:
        SettingsError: the URL or the namespace is not one; or there is no URL, below a tool host.
        ServerUnavailableError: nothing answered within the connect time.
        ServerUnfitError: the server may not hold a ledger.
        ServerBinaryMissingError: no program for the embedded server was found.
    """
    keys = Keyspace(namespace)
    embedded = await _embedded(url)
    place = embedded.url if embedded is not None else normal_url(url or "")
    store = Store(place, keys, settings or StoreSettings(), embedded)
    try:
        await store.meet()
    except BaseException:
        await store.aclose()
        raise
    return store


async def _embedded(url: str | None) -> EmbeddedServer | None:
    if not is_embedded(url):
        return None
    directory = embedded_directory(url)
    if directory is None and below_a_tool_host():
        # The worker's own server may be elsewhere, and its address is kept from tools: this would start another.
        what = "A tool, or a program that it started, has asked for a server without naming one."
        raise SettingsError(what, next_step="Nothing was started. Give the URL of a server that tools may use.")
    return await EmbeddedServer.join_or_start_async(Path(directory) if directory else default_data_dir())


def _run_id(info: object) -> str:
    if not isinstance(info, bytes):
        return ""
    for line in info.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name == "run_id":
            return value.strip()
    return ""


def _good(reply: object) -> object:
    if isinstance(reply, BaseException):
        raise reply
    return reply
