"""`mycelium receipts`: writes receipts as the ledger goes on, verifies them, and makes missing ones again."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from ..leases.errors import JobNotFoundError, MyceliumError, ReceiptError, SettingsError
from .connected import connected
from .logs import LogFormat, log_to_stderr
from .options import EPILOG, AsJson, ExitCode, Namespace, Url
from .output import print_json, run, say, say_error, shown

# The rest is imported by the commands themselves: help and completion come without it.
if TYPE_CHECKING:
    from ..leases.store import Store
    from ..ledger.receipts import Receipt, ReceiptKeys, ReceiptStream, Tally
    from ..ledger.receipts.table import ReceiptTable

log = logging.getLogger(__name__)

receipts = typer.Typer(no_args_is_help=True, help="Write and verify signed receipts, and make missing ones again.")

To = Annotated[
    str,
    typer.Option(
        "--to",
        envvar="MYCELIUM_RECEIPTS",
        metavar="ADDRESS",
        help="Where receipts are kept: a file, redis: for the ledger's own server, or postgresql://…",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keys, a line each: key_id:secret. Without it: MYCELIUM_RECEIPT_KEY."),
]

_SINCE = re.compile(r"(\d{1,9})([smhd])")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_LISTED = 10_000
_LOOK_BACK = 200_000
"""Moves: more than the ledger keeps."""
_BATCH = 100
_TOLD_EVERY = 1000


@receipts.command(epilog=EPILOG)
def verify(
    address: Annotated[
        str,
        typer.Argument(
            envvar="MYCELIUM_RECEIPTS",
            metavar="ADDRESS",
            help="A file, - for stdin, redis: for the ledger's own server, or postgresql://…",
        ),
    ],
    key_file: KeyFile = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Tell whether receipts are as they were signed. That none is missing cannot be told from them.

    Half a line that a killed writer left is told and is no fault. The exit code is 1 when a receipt is bad.
    """
    run(_verify(address, key_file, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@receipts.command(epilog=EPILOG)
def issue(  # noqa: PLR0913, PLR0917 - each is an option of the command
    to: To,
    request_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The request ids.")] = None,
    since: Annotated[
        str,
        typer.Option(metavar="AGE", help="Also all that settled so lately, such as 90s, 15m, 2h or 3d, and is listed."),
    ] = "",
    key_file: KeyFile = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Make the receipts of transitions again from what is on record, and write those that are missing.

    This is also how a second address is filled: following has one place a ledger, whatever the address.
    """
    work = _issue(request_ids or [], since, to, key_file, url=url, namespace=namespace, as_json=as_json)
    run(work, as_json=as_json)


@receipts.command(epilog=EPILOG)
def follow(  # noqa: PLR0913, PLR0917 - each is an option of the command
    to: To,
    once: Annotated[bool, typer.Option("--once", help="End when all up to now is written.")] = False,  # noqa: FBT002 - an option
    key_file: KeyFile = None,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Write a receipt of all that settles or is released, as it comes; SIGTERM or Ctrl-C ends it.

    It goes on from the place that was reached last, by whichever process. There is one place a ledger, not one an
    address: another address gets only what comes from now on, and `issue --since` fills it with what was before.

    With --once, the exit code is 1 when a receipt could not be made, or events were dropped before they were followed.
    """
    work = _follow_once if once else _follow
    run(work(to, key_file, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


@receipts.command("create-table", epilog=EPILOG)
def create_table(
    address: Annotated[str, typer.Argument(envvar="MYCELIUM_RECEIPTS", metavar="ADDRESS", help="postgresql://…")],
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Make the table for receipts in a PostgreSQL database, unless it is there."""
    run(_create_table(address, as_json=as_json), as_json=as_json)


async def _verify(address: str, key_file: Path | None, *, url: str | None, namespace: str, as_json: bool) -> None:
    from ..ledger.receipts import ReceiptStream, Tally  # noqa: PLC0415 - (as above)
    from ..ledger.receipts.sinks import LEDGER, is_table, path_of  # noqa: PLC0415 - (as above)

    tally = Tally(_keys(key_file, to_sign=False))
    if address == LEDGER:
        async with connected(url, namespace) as store:
            await _tally(tally, ReceiptStream(store))
    elif is_table(address):
        table = _table(address)
        try:
            await _tally(tally, table)
        finally:
            await table.aclose()
    elif address == "-":
        _tally_file(tally, sys.stdin.buffer, 0)
    else:
        with _opened(path_of(address)) as (stream, size):
            _tally_file(tally, stream, size)
    _say_tally(tally, as_json=as_json)
    if tally.bad:
        raise typer.Exit(ExitCode.NO_RESULT)


async def _issue(  # noqa: PLR0913 - each is an option of the command
    request_ids: list[str],
    since: str,
    to: str,
    key_file: Path | None,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..ledger.receipts import sink_of  # noqa: PLC0415 - (as above)
    from ..ledger.receipts.sinks import check_address  # noqa: PLC0415 - (as above)

    age_ms = _age_ms(since)
    if not request_ids and age_ms is None:
        raise _bad(
            "Neither a request id nor --since was given.", "Nothing was written. Name transitions, or say --since 2h."
        )
    signer = _keys(key_file).signer
    check_address(to)
    async with connected(url, namespace) as store:
        sink = sink_of(to, store=store)
        try:
            made = await _named(store, request_ids)
            recent, faults = await _recent(store, age_ms) if age_ms is not None else ([], [])
            signed = [signer.sign(receipt) for receipt in {r.receipt_id: r for r in [*made, *recent]}.values()]
            batches = [signed[at : at + _BATCH] for at in range(0, len(signed), _BATCH)]
            new = sum([await sink.write(batch) or 0 for batch in batches])
        finally:
            await sink.aclose()
    _say_issued(signed, new, as_json=as_json)
    for fault in faults:
        say_error(fault, as_json=as_json)
    if faults:
        raise typer.Exit(ExitCode.NO_RESULT)


def _say_issued(signed: list[Receipt], new: int, *, as_json: bool) -> None:
    if as_json:
        told = [{"receipt_id": r.receipt_id, "kind": r.kind, "request_id": r.request_id} for r in signed]
        print_json({"receipts": told, "new": new, "there": len(signed) - new})
        return
    say(f"Receipts: {new:,} new, {len(signed) - new:,} there before.")


async def _follow_once(to: str, key_file: Path | None, *, url: str | None, namespace: str, as_json: bool) -> None:
    from ..ledger.receipts import receipts_to, run_once  # noqa: PLC0415 - (as above)
    from ..ledger.receipts.sinks import check_address  # noqa: PLC0415 - (as above)

    check_address(to)
    make = receipts_to(to, keys=_keys(key_file))
    async with connected(url, namespace) as store:
        writer = make(store)
        try:
            report = await run_once(store, writer)
        finally:
            await writer.aclose()
    if as_json:
        print_json(dataclasses.asdict(report))
    else:
        told = f"{report.events:,} events followed, {report.written:,} receipts are kept"
        say(f"{told}, {report.missed:,} could not be made, {report.lost:,} events were dropped before.")
    if report.missed or report.lost:
        raise typer.Exit(ExitCode.NO_RESULT)


async def _follow(to: str, key_file: Path | None, *, url: str | None, namespace: str, as_json: bool) -> None:
    import asyncio  # noqa: PLC0415 - (as above)
    import signal  # noqa: PLC0415 - (as above)
    from contextlib import suppress  # noqa: PLC0415 - (as above)

    from ..ledger.receipts import EVERY_S, Follower, receipts_to  # noqa: PLC0415 - (as above)
    from ..ledger.receipts.sinks import check_address  # noqa: PLC0415 - (as above)

    check_address(to)
    log_to_stderr(LogFormat.JSON if as_json else LogFormat.TEXT)
    make = receipts_to(to, keys=_keys(key_file))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connected(url, namespace) as store:
        follower = Follower(store, make(store))
        log.info("following the ledger at %s, namespace %s", store.address, namespace)
        while not stop.is_set():
            await follower.step()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), EVERY_S)
        await follower.aclose()


async def _named(store: Store, request_ids: list[str]) -> list[Receipt]:
    """Build the receipts of the transitions that were named."""
    from ..ledger.receipts import read_row, receipts_of  # noqa: PLC0415 - (as above)

    made: list[Receipt] = []
    for request_id in request_ids:
        row = await read_row(store, request_id)
        found = receipts_of(row)
        if not found:
            what = f"Transition {request_id!r} has not settled: there is no receipt of it yet."
            raise ReceiptError(what, state=row.record.state, next_step="Ask again when it has.")
        made.extend(found)
    return made


async def _recent(store: Store, age_ms: int) -> tuple[list[Receipt], list[MyceliumError]]:
    """Build the receipts of what settled lately, and say of which transitions that cannot be done."""
    from ..ledger.listing import Wanted, find_transitions  # noqa: PLC0415 - (as above)
    from ..ledger.receipts import read_row, receipts_of  # noqa: PLC0415 - (as above)
    from ..ledger.record import read_now_ms  # noqa: PLC0415 - (as above)

    made: list[Receipt] = []
    faults: list[MyceliumError] = []
    earliest_ms = await read_now_ms(store) - age_ms
    found = await find_transitions(store, Wanted(), limit=_MOST_LISTED, look_back=_LOOK_BACK)
    records = [line.record for line in found.lines]
    if (found.more or found.cut) and records and records[-1].changed_ms >= earliest_ms:
        what = f"Only the last {len(records):,} transitions were looked at, and more are younger than that."
        faults.append(ReceiptError(what, next_step="Give a shorter --since, or name those before them."))
    for record in records:
        if record.changed_ms < earliest_ms:
            break
        try:
            built = receipts_of(await read_row(store, record.request_id))
        except (ReceiptError, JobNotFoundError) as error:
            faults.append(error)
            continue
        made.extend(receipt for receipt in built if receipt.at_ms >= earliest_ms)
    return made, faults


async def _create_table(address: str, *, as_json: bool) -> None:
    from ..ledger.receipts.sinks import is_table  # noqa: PLC0415 - (as above)

    if not is_table(address):
        raise _bad("That is not the address of a PostgreSQL server.", "Nothing was made. Write postgresql://…")
    table = _table(address)
    try:
        await table.create_table()
    finally:
        await table.aclose()
    if as_json:
        print_json({"table": "mycelium_receipts"})
    else:
        say(f"The table mycelium_receipts is there, at {table.address}.")


async def _tally(tally: Tally, source: ReceiptStream | ReceiptTable) -> None:
    with _progress(0) as tell:
        async with aclosing(source.lines()) as lines:
            async for line in lines:
                tally.add(line)
                tell(line.ends_at)


def _tally_file(tally: Tally, stream: BinaryIO, size: int) -> None:
    import signal  # noqa: PLC0415 - (as above)

    from ..ledger.receipts.file import read_lines  # noqa: PLC0415 - (as above)

    # Nothing else runs meanwhile that a cancel could reach: Ctrl-C has to end the reading itself.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with _progress(size) as tell:
        for line in read_lines(stream):
            tally.add(line)
            tell(line.ends_at)


def _say_tally(tally: Tally, *, as_json: bool) -> None:
    bad = sum(tally.bad.values())
    if as_json:
        flaws = [{"where": where, **dataclasses.asdict(found)} for where, found in tally.flaws]
        counts = {"good": tally.good, "bad": bad, "torn": tally.torn, "repeated": tally.repeated}
        print_json({**counts, "verdicts": dict(tally.bad), "flaws": flaws})
        return
    for where, found in tally.flaws:
        known = [("receipt", found.receipt_id), ("request", found.request_id), ("key", found.key_id)]
        told = "  ".join(f"{name} {shown(value)}" for name, value in known if value)
        say(f"{where}: {found.verdict}  {told}".rstrip())
    if bad > len(tally.flaws):
        say(f"… and {bad - len(tally.flaws):,} more")
    say(f"{tally.good:,} good, {bad:,} bad, {tally.repeated:,} repeated, {tally.torn:,} torn")


def _keys(key_file: Path | None, *, to_sign: bool = True) -> ReceiptKeys:
    from ..ledger.receipts import ReceiptKeys  # noqa: PLC0415 - (as above)

    if key_file is not None:
        return ReceiptKeys.from_file(key_file, to_sign=to_sign)
    return ReceiptKeys.from_environment(to_sign=to_sign)


def _table(address: str) -> ReceiptTable:
    from ..ledger.receipts import sink_of  # noqa: PLC0415 - (as above)

    return cast("ReceiptTable", sink_of(address))


@contextmanager
def _opened(path: Path) -> Generator[tuple[BinaryIO, int]]:
    try:
        stream = path.open("rb")
    except OSError as error:
        raise _bad(f"The receipts {path} cannot be read: {error.strerror}.", "Check the path.") from None
    with stream:
        yield stream, path.stat().st_size


@contextmanager
def _progress(size: int) -> Generator[Callable[[int], None]]:
    """A progress bar on a terminal, in bytes where they are known; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - (as above)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - (as above)

    columns = TextColumn("receipts"), BarColumn(), TextColumn("{task.fields[seen]:,}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=size or None, seen=0)
        seen = 0

        def tell(ends_at: int) -> None:
            nonlocal seen
            seen += 1
            if seen % _TOLD_EVERY == 0:
                progress.update(bar, completed=ends_at, seen=seen)

        yield tell


def _age_ms(written: str) -> int | None:
    if not written:
        return None
    match = _SINCE.fullmatch(written)
    if match is None:
        raise _bad(f"{written!r} is no age.", "Nothing was written. Write 90s, 15m, 2h or 3d.")
    return int(match[1]) * _UNITS_MS[match[2]]


def _bad(what: str, next_step: str) -> SettingsError:
    return SettingsError(what, next_step=next_step)
