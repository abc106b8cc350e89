"""What a server must be to hold a ledger: asked at connect, refused in a sentence with the command that mends it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, ConnectionError, ResponseError, TimeoutError  # noqa: A004

from .errors import ServerUnfitError

UNKNOWN = "unknown"
"""What a fact is where the server does not say (CONFIG or INFO not permitted, or a stand-in without them)."""

OLDEST = (6, 2)

_NO_FILE = (
    "The server keeps no append-only file: a restart loses what was acknowledged since the last snapshot. "
    "Run `CONFIG SET appendonly yes` and `CONFIG SET appendfsync always`."
)
_LATE_SYNC = (
    "The server syncs its append-only file '{}': a crash of the machine can lose the last acknowledged writes, marks "
    "included. Run `CONFIG SET appendfsync always`."
)

_log = logging.getLogger(__name__)
_ELSEWHERE = (ConnectionError, TimeoutError, AuthenticationError)


class Family(StrEnum):
    """Who made the server."""

    REDIS = "redis"
    """Redis, or something that calls itself so."""
    VALKEY = "valkey"
    """Valkey."""
    UNKNOWN = "unknown"
    """The server does not say."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the server says of itself; 'unknown' where it does not. `run_id` is then empty."""

    family: Family
    version: str
    run_id: str
    role: str
    maxmemory_policy: str
    appendonly: str
    appendfsync: str
    warnings: tuple[str, ...] = ()


async def check_server(client: Redis) -> ServerFacts:
    """Ask a server what it is, and refuse one that cannot hold a ledger. Warnings are logged once, here.

    Raises:
        ServerUnfitError: a replica, a version before 6.2, or a policy that evicts keys.
        redis.exceptions.ConnectionError: and the library's other errors, where the server cannot be asked.
    """
    facts = await _ask(client)
    _refuse_unfit(facts)
    for warning in facts.warnings:
        _log.warning("%s", warning)
    return facts


async def _ask(client: Redis) -> ServerFacts:
    info = await _info(client)
    policy = info.get("maxmemory_policy", "") or await _config(client, "maxmemory-policy")
    appendonly = {"1": "yes", "0": "no"}.get(info.get("aof_enabled", ""), UNKNOWN)
    version = info.get("valkey_version") or info.get("redis_version") or UNKNOWN
    family = Family.UNKNOWN
    if version != UNKNOWN:
        family = Family.VALKEY if "valkey_version" in info else Family.REDIS
    facts = ServerFacts(
        family=family,
        version=version,
        run_id=info.get("run_id", ""),
        role=info.get("role", UNKNOWN),
        maxmemory_policy=policy,
        appendonly=appendonly,
        appendfsync=await _config(client, "appendfsync"),
    )
    return replace(facts, warnings=_warnings(facts))


async def _info(client: Redis) -> dict[str, str]:
    try:
        info = cast("Mapping[str, object]", await cast("Any", client).info())
    except _ELSEWHERE:
        raise
    except ResponseError:
        return {}
    return {key: str(value) for key, value in info.items()}


async def _config(client: Redis, name: str) -> str:
    try:
        found = cast("Mapping[object, object]", await cast("Any", client).config_get(name))
    except _ELSEWHERE:
        raise
    except ResponseError:
        return UNKNOWN
    for value in found.values():
        return value.decode() if isinstance(value, bytes) else str(value)
    return UNKNOWN


def _refuse_unfit(facts: ServerFacts) -> None:
    if facts.role not in {"master", UNKNOWN}:
        what = "The server is a replica: it refuses writes, and a lease read from it proves nothing."
        raise ServerUnfitError(what, next_step="Give the address of its master (`INFO replication` names it).")
    if facts.version != UNKNOWN and _numbers(facts.version) < OLDEST:
        what = f"The server has version {facts.version}; the oldest that will do is {OLDEST[0]}.{OLDEST[1]}."
        raise ServerUnfitError(what, next_step="Upgrade the server, or leave the URL out for the embedded one.")
    if facts.maxmemory_policy not in {"noeviction", UNKNOWN}:
        what = f"The server may evict keys (maxmemory-policy {facts.maxmemory_policy}): a lost row looks like none."
        raise ServerUnfitError(
            what, next_step="Run `CONFIG SET maxmemory-policy noeviction`, and put it into its configuration."
        )


def _warnings(facts: ServerFacts) -> tuple[str, ...]:
    if facts.appendonly == "no":
        return (_NO_FILE,)
    if facts.appendonly == "yes" and facts.appendfsync not in {"always", UNKNOWN}:
        return (_LATE_SYNC.format(facts.appendfsync),)
    return ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
