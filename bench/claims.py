"""What a claim costs the server, whatever waits: 1,000 to 1,000,000 ready jobs, 100,000 delayed ones, 10,000 tenants.

Each stage fills a fresh namespace of one private server, then takes turns as a worker does: settle what the last turn
claimed, claim the next. The figure is the server's own time for one such script call (`INFO commandstats`), the median
over chunks of turns. The server logs every command above 10 ms; their number is told beside it.

    python bench/claims.py                  # the whole table, some minutes and 2 GB
    python bench/claims.py --most 100000    # smaller
    python bench/claims.py --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from mycelium.leases.embedded import EmbeddedServer
from mycelium.leases.session import SessionSettings, open_session
from mycelium.leases.store import Store, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.limits import Concurrency, Rate, fill_limits
from mycelium.ledger.line import Line, Priority
from mycelium.ledger.states import EffectClass, Settle
from mycelium.ledger.submit import Intent, submit
from mycelium.ledger.sweep import run_once
from mycelium.ledger.turn import Known, Settlement, take_turn

SLOW_US = 10_000
TURNS_A_CHUNK = 10
READ = Binding(effect_class=EffectClass.READ)
PRIORITIES = tuple(Priority)


@dataclass(frozen=True, slots=True)
class Measured:
    """One stage of the table."""

    stage: str
    jobs: int
    turn_us: float
    job_us: float
    fill_s: float
    slow: int


def plain(number: int) -> Intent:
    """A job of one of ten tools, in one line each."""
    return _intent(number, f"tool-{number % 10}")


def mixed(number: int) -> Intent:
    """A job of one of ten tools and five priorities."""
    tool = f"tool-{number % 10}"
    return _intent(number, tool, line=Line(tool=tool, priority=PRIORITIES[number // 10 % 5]))


def tenanted(tenants: int) -> Callable[[int], Intent]:
    """Jobs of so many tenants of one tool."""
    return lambda number: _intent(number, "tool-0", line=Line(tool="tool-0", tenant=f"tenant-{number % tenants}"))


def keyed(number: int) -> Intent:
    """A job of one of 1,000 keys that admit two at a time."""
    limits = fill_limits((Concurrency("customer:{customer}", 2),), {"customer": str(number % 1000)})
    return _intent(number, "tool-0", limits=limits)


def one_key(number: int) -> Intent:
    """A job of one key that admits two at a time: nearly all of them wait for it."""
    return _intent(number, "tool-0", limits=fill_limits((Concurrency("one", 2),), {}))


def metered(number: int) -> Intent:
    """A job of one bucket that gives 1,000 units a second."""
    return _intent(number, "tool-0", limits=fill_limits((Rate("account", 1000),), {}))


def delayed(number: int) -> Intent:
    """A job that is due in an hour."""
    return _intent(number, "tool-0", due="+3600000")


def _intent(number: int, tool: str, **more: object) -> Intent:
    args = canonical({"n": number})
    identity = identify(tool, READ.effect_class, args, request_id=f"job-{number}", namespace="b")
    return Intent(identity=identity, tool=tool, binding=READ, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def _namespace(url: str, name: str) -> AsyncGenerator[Store]:
    store = await open_store(url, namespace=name)
    await store.calls.run(
        open_session(
            session="bench",
            epoch=store.epoch,
            boot="bench",
            ttl_ms=round(SessionSettings(ttl_s=3600, renew_every_s=1000).ttl_s * 1000),
            grace_ms=0,
            name="bench",
            info="{}",
        )
    )
    try:
        yield store
    finally:
        await store.aclose()


async def _fill(store: Store, make: Callable[[int], Intent], first: int, jobs: int) -> float:
    began = time.perf_counter()
    for at in range(first, first + jobs, 2000):
        batches = [
            [make(number) for number in range(begin, min(begin + 100, first + jobs))]
            for begin in range(at, min(at + 2000, first + jobs), 100)
        ]
        await asyncio.gather(*[submit(store.calls, batch) for batch in batches])
    return time.perf_counter() - began


async def _script_us(store: Store) -> tuple[int, int]:
    """Calls and microseconds of all scripts so far."""
    reply = await store.calls.read("INFO", "commandstats")
    text = reply.decode() if isinstance(reply, bytes) else str(reply)
    for line in text.splitlines():
        if line.startswith("cmdstat_evalsha:"):
            fields = dict(part.split("=") for part in line.partition(":")[2].split(","))
            return int(fields["calls"]), int(fields["usec"])
    return 0, 0


async def _turns(store: Store, tools: list[str], slots: int, turns: int) -> tuple[float, int]:
    """Microseconds of the server for one turn, and the jobs that were claimed."""
    known = dict.fromkeys(tools, Known(READ))
    ended: list[Settlement] = []
    calls, spent = await _script_us(store)
    claimed = 0
    for number in range(turns):
        report = await take_turn(
            store.calls,
            session_id="bench",
            epoch=store.epoch,
            lane=0,
            op=f"{time.monotonic_ns()}-{number}",
            slots=slots,
            ended=ended,
            known=known,
        )
        claimed += len(report.grants)
        ended = [
            Settlement(request_id=grant.request_id, fence=grant.fence, verb=Settle.COMPLETED, body=b"1")
            for grant in report.grants
        ]
    await take_turn(
        store.calls,
        session_id="bench",
        epoch=store.epoch,
        lane=0,
        op=str(time.monotonic_ns()),
        slots=0,
        ended=ended,
        known={},
    )
    after, total = await _script_us(store)
    return (total - spent) / max(1, after - calls), claimed


async def _stage(  # noqa: PLR0913 - what a stage is
    store: Store, stage: str, make: Callable[[int], Intent], jobs: int, fill_s: float, *, slots: int, chunks: int
) -> Measured:
    await store.calls.read("SLOWLOG", "RESET")
    tools = [f"tool-{number}" for number in range(10)]
    figures: list[tuple[float, int]] = []
    for chunk in range(chunks):
        figures.append(await _turns(store, tools, slots, TURNS_A_CHUNK))
        # As many wait in the next chunk as in this one.
        await _fill(store, make, 10_000_000 * (1 + chunk) + jobs, figures[-1][1])
    await run_once(store)
    slow = await store.calls.read("SLOWLOG", "LEN")
    turn_us = statistics.median(figure[0] for figure in figures)
    claimed = statistics.median(figure[1] for figure in figures) / TURNS_A_CHUNK
    return Measured(stage, jobs, round(turn_us, 1), round(turn_us / max(1.0, claimed), 1), round(fill_s, 1), int(slow))  # type: ignore[arg-type]


async def _run(url: str, most: int, slots: int, chunks: int) -> list[Measured]:
    lines: list[Measured] = []
    async with _namespace(url, "ready") as store:
        await store.calls.read("CONFIG", "SET", "slowlog-log-slower-than", SLOW_US)
        waiting, size = 0, 1000
        while size <= most:
            fill_s = await _fill(store, plain, waiting, size - waiting)
            lines.append(await _stage(store, "ready, 10 tools", plain, size, fill_s, slots=slots, chunks=chunks))
            waiting, size = size, size * 10
    shapes: list[tuple[str, Callable[[int], Intent], int]] = [
        ("five priorities", mixed, min(most, 100_000)),
        ("10,000 tenants", tenanted(10_000), min(most, 100_000)),
        ("1,000 keys, 2 each", keyed, min(most, 100_000)),
        ("one key, 2 at once", one_key, min(most, 100_000)),
        ("one bucket, 1,000/s", metered, min(most, 100_000)),
        ("delayed", delayed, min(most, 100_000)),
    ]
    for number, (stage, make, jobs) in enumerate(shapes):
        async with _namespace(url, f"shape-{number}") as store:
            fill_s = await _fill(store, make, 0, jobs)
            lines.append(await _stage(store, stage, make, jobs, fill_s, slots=slots, chunks=chunks))
            await store.calls.read("FLUSHALL")
    return lines


def _print(lines: list[Measured]) -> None:
    head = ("stage", "jobs", "µs a turn", "µs a job", "fill s", "above 10 ms")
    rows = [tuple(str(value) for value in asdict(line).values()) for line in lines]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        sys.stdout.write("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n")
    ready = [line.turn_us for line in lines if line.stage.startswith("ready")]
    sys.stdout.write(f"dearest over cheapest turn, by what waits: {max(ready) / min(ready):.2f}\n")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="jobs of the largest stage")
    parser.add_argument("--slots", type=int, default=50, help="jobs that a turn claims")
    parser.add_argument("--chunks", type=int, default=9, help="chunks of 10 turns, of which the median is told")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with EmbeddedServer.start() as server:
        lines = asyncio.run(_run(server.url, options.most, options.slots, options.chunks))
    if options.json:
        sys.stdout.write(json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    else:
        _print(lines)


if __name__ == "__main__":
    main()
