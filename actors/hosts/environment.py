"""What a tool host may know of its surroundings: everything but the store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from ...leases.errors import SettingsError

KEPT = frozenset({"MYCELIUM_LOG_LEVEL"})
"""Variables of ours that a host may have."""

_OURS = ("MYCELIUM_", "REDIS", "VALKEY")
_STORE_URL = re.compile(r"\b(?:rediss?|valkeys?)(?:\+\w+)?://", re.IGNORECASE)
_TELLING_CHARS = 6


def host_environment(
    base: Mapping[str, str],
    extra: Mapping[str, str],
    *,
    store_url: str | None,
    path: Iterable[str] = (),
) -> dict[str, str]:
    """Make the environment of a tool host.

    Args:
        base: the control process's own environment. From it go our variables, those of Redis and Valkey by name, and
            any whose value has a URL of such a server, or the store's address or password in it.
        extra: what the operator gives to the tools on purpose, under any name.
        store_url: the URL of the store.
        path: directories to import from, before those of PYTHONPATH.

    Raises:
        SettingsError: `extra` has the store's address or password in it.
    """
    marks = _marks_of(store_url)
    for name, value in extra.items():
        if _tells(value, marks):
            what = f"The variable {name!r} for the tool hosts has the store's address or password in it."
            raise SettingsError(what, next_step="Take it out: tools never talk to the store.")
    kept = {name: value for name, value in base.items() if _may_keep(name, value, marks)}
    made = {**kept, **extra}
    if directories := [*path]:
        made["PYTHONPATH"] = os.pathsep.join([*directories, *filter(None, [made.get("PYTHONPATH", "")])])
    return made


def _may_keep(name: str, value: str, marks: tuple[str, ...]) -> bool:
    if name.upper().startswith(_OURS) and name not in KEPT:
        return False
    return not _STORE_URL.search(value) and not _tells(value, marks)


def _tells(value: str, marks: tuple[str, ...]) -> bool:
    return any(mark in value for mark in marks)


def _marks_of(store_url: str | None) -> tuple[str, ...]:
    """Texts that give the store away: its address, its password, its socket."""
    if not store_url:
        return ()
    parts = urlsplit(store_url)
    address = parts.netloc.rpartition("@")[2] if parts.port else ""
    socket_path = unquote(parts.path) if parts.scheme == "unix" else ""
    password = unquote(parts.password) if parts.password else ""
    # A short password would be found in innocent values, and without PATH no tool works.
    found = password if len(password) >= _TELLING_CHARS else ""
    return tuple(text for text in (store_url, address, socket_path, found) if text)
