"""Where receipts go, chosen by address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from ...leases.errors import SettingsError
from ...leases.store import Store
from .file import ReceiptFile
from .receipt import Receipt
from .stream import ReceiptStream

VARIABLE = "MYCELIUM_RECEIPTS"
"""The environment variable with the address; it may hold a password."""

LEDGER = "redis:"
"""The address of the stream in the ledger's own server and namespace."""

_POSTGRES = ("postgresql://", "postgres://")
_NEXT = "Use a path, file:///path, redis: for the ledger's own server, or postgresql://user@host/database."


class ReceiptSink(Protocol):
    """Takes signed receipts and keeps one of each id, however often it is written."""

    async def write(self, receipts: Sequence[Receipt]) -> int | None:
        """Keep receipts for good before returning. Whatever it raises, writing them again must be safe.

        Returns:
            How many were not there before; None: it cannot tell.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what is open."""
        ...


def is_table(address: str) -> bool:
    """Tell whether an address is that of a PostgreSQL server."""
    return address.startswith(_POSTGRES)


def path_of(address: str) -> Path:
    """Give the path of a file's address.

    Raises:
        SettingsError: it is the address of something else.
    """
    scheme, colon, _ = address.partition(":")
    if scheme == "file":
        parts = urlsplit(address)
        if parts.netloc not in {"", "localhost"} or not parts.path:
            raise SettingsError("A file's address has no host.", next_step="Write file:///path, or the path alone.")
        return Path(unquote(parts.path))
    if not address or (colon and "/" not in scheme):
        # Never the rest of it: that may be a password.
        what = f"'{scheme[:20]}{colon}…' is no address for receipts."
        raise SettingsError(what, next_step=_NEXT)
    return Path(address)


def sink_of(address: str, *, store: Store | None = None) -> ReceiptSink:
    """Make the sink of an address.

    Args:
        address: a path, `file:///path`, `redis:` or `postgresql://…`.
        store: the ledger's server, which `redis:` needs.

    Raises:
        SettingsError: it is no address for receipts, `redis:` has no store, or the extra `postgres` is not installed.
    """
    if address == LEDGER:
        if store is None:
            what = "Receipts are to go to the ledger's own server, and none is open here."
            raise SettingsError(what, next_step="Open it first, or name a file or a PostgreSQL server.")
        return ReceiptStream(store)
    if not is_table(address):
        return ReceiptFile(path_of(address))
    try:
        from .table import ReceiptTable  # noqa: PLC0415 - the driver is an extra
    except ImportError:
        what = "Receipts are to go to PostgreSQL, and its driver is not installed."
        raise SettingsError(what, next_step="Install it: pip install 'mycelium[postgres]'.") from None
    return ReceiptTable(address)


def check_address(address: str) -> None:
    """Find out now, and not with the first receipt, which may come in a week, that a file cannot be where it is to be.

    Raises:
        SettingsError: it is no address for receipts, a directory, or a file whose directory is not there.
    """
    if address == LEDGER or is_table(address):
        return
    path = path_of(address)
    if not path.parent.is_dir():
        what = f"The directory {path.parent} of the receipt file is not there."
        raise SettingsError(what, next_step="Nothing was written. Make it, or name another file.")
    if path.is_dir():
        raise SettingsError(f"{path} is a directory.", next_step="Nothing was written. Name a file in it.")
