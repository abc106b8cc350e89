"""Receipts in a PostgreSQL table. Needs the extra `postgres`: `sinks` loads this module when an address asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...leases.errors import (
    MyceliumError,
    ReceiptError,
    ReplyLostError,
    ServerError,
    ServerUnavailableError,
    SettingsError,
)
from .line import Line
from .receipt import Receipt

T = TypeVar("T")

DDL = """\
CREATE TABLE IF NOT EXISTS mycelium_receipts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receipt_id text NOT NULL UNIQUE,
    body text NOT NULL
)"""
"""The table. `body` is the receipt as it was signed: ask it with `body::jsonb ->> 'request_id'`."""

_INSERT = """\
INSERT INTO mycelium_receipts (receipt_id, body)
SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT (receipt_id) DO NOTHING"""
_SELECT = "SELECT number, receipt_id, body FROM mycelium_receipts WHERE number > %s ORDER BY number LIMIT 1000"
_AWAY = ("08", "57P")
"""Classes of SQLSTATE that say so: connection exceptions, and a server that goes down or comes up."""

_THERE_ALREADY = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject)


class ReceiptTable:
    """Inserts into the table `mycelium_receipts`, over one connection that is opened when it is first needed.

    Args:
        dsn: `postgresql://…`; it may hold a password, so it is never told.
        timeout_s: how long one batch may take, connecting included.

    Raises:
        SettingsError: the address is not one.
    """

    def __init__(self, dsn: str, *, timeout_s: float = 10.0) -> None:
        try:
            place = conninfo_to_dict(dsn)
            told = {"connect_timeout": "5", "application_name": "mycelium"} | place
            self._conninfo = make_conninfo("", **told)
        except psycopg.ProgrammingError:
            what = "The address of the receipts' PostgreSQL server cannot be read."
            raise SettingsError(what, next_step="Write postgresql://user@host:port/database.") from None
        self.address = f"{place.get('host', 'localhost')}:{place.get('port', 5432)}/{place.get('dbname', '')}"
        self._timeout_s = timeout_s
        self._connection: psycopg.AsyncConnection | None = None
        self._turn = asyncio.Lock()

    async def create_table(self) -> None:
        """Make the table, unless it is there.

        Raises:
            ServerError: the server could not be asked; asking again is safe.
            ReceiptError: it refuses.
        """

        async def create(connection: psycopg.AsyncConnection) -> None:
            # Two that make it at once are not kept apart by IF NOT EXISTS: the later one fails, and the table is there.
            with suppress(*_THERE_ALREADY):
                await connection.execute(DDL)

        await self._run(create)

    async def write(self, receipts: Sequence[Receipt]) -> int:
        """Insert receipts, all or none; those that are there stay as they are.

        Returns:
            How many were not there before; fewer are told where a reply was lost.

        Raises:
            ServerError: the server could not be asked; writing them again is safe.
            ReceiptError: it refuses, or the table is not there.
        """
        if not receipts:
            return 0
        columns = [receipt.receipt_id for receipt in receipts], [receipt.body().decode() for receipt in receipts]

        async def insert(connection: psycopg.AsyncConnection) -> int:
            return (await connection.execute(_INSERT, columns)).rowcount

        return await self._run(insert)

    async def lines(self) -> AsyncGenerator[Line]:
        """Read the table, oldest first; errors are those of `write`."""
        last = -1
        while True:
            rows = await self._run(partial(_page, after=last))
            if not rows:
                return
            for last, receipt_id, body in rows:
                yield Line(f"row {last}", body.encode(), stored_as=receipt_id)

    async def aclose(self) -> None:
        """Close the connection."""
        async with self._turn:
            await self._drop()

    async def _run(self, work: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
        async with self._turn:
            kept = self._connection is not None
            try:
                return await self._try(work)
            except ServerError:
                # A connection that the server closed while it was idle is noticed only by the next statement.
                if not kept:
                    raise
            return await self._try(work)

    async def _try(self, work: Callable[[psycopg.AsyncConnection], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await work(await self._connected())
        except (psycopg.Error, TimeoutError) as error:
            told = self._told(error)
            await self._drop()
            raise told from None
        except BaseException:
            await self._drop()
            raise

    async def _connected(self) -> psycopg.AsyncConnection:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _told(self, error: Exception) -> MyceliumError:
        # The driver's text may quote the address with its password, and the server's what was inserted.
        word = type(error).__name__
        if isinstance(error, psycopg.errors.UndefinedTable):
            what = f"The database at {self.address} has no table mycelium_receipts."
            return ReceiptError(what, next_step="Make it: mycelium receipts create-table postgresql://…")
        if not _is_away(error):
            what = f"The PostgreSQL server for receipts at {self.address} refuses ({word})."
            return ReceiptError(what, next_step="Check the user, its rights and the table mycelium_receipts.")
        if self._connection is not None:
            what = f"The PostgreSQL server for receipts at {self.address} went away ({word})."
            return ReplyLostError(what, next_step="Write them again, when it is back: none is kept twice.")
        what = f"The PostgreSQL server for receipts at {self.address} cannot be reached ({word})."
        return ServerUnavailableError(what, next_step="Check that it runs, the address, the user and the password.")


def _is_away(error: Exception) -> bool:
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state:
        return state.startswith(_AWAY)
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError))


async def _page(connection: psycopg.AsyncConnection, *, after: int) -> list[tuple[int, str, str]]:
    return await (await connection.execute(_SELECT, [after])).fetchall()
