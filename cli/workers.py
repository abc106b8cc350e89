"""`mycelium workers`: lists the sessions that are open."""

from __future__ import annotations

import dataclasses
from typing import cast

from .connected import connected
from .options import AsJson, Namespace, Url
from .output import duration, print_json, print_table, run


def workers(url: Url = None, namespace: Namespace = "mycelium", as_json: AsJson = False) -> None:  # noqa: FBT002 - an option
    """List who holds a session: workers, and programs that call tools in process, which claim no jobs."""
    run(_workers(url=url, namespace=namespace, as_json=as_json), as_json=as_json)


async def _workers(*, url: str | None, namespace: str, as_json: bool) -> None:
    from ..ledger.record import read_now_ms  # noqa: PLC0415 - help and completion come without it
    from ..ledger.sessions import list_sessions  # noqa: PLC0415 - (the same)

    async with connected(url, namespace) as store:
        where = store.address
        lines = await list_sessions(store)
        now_ms = await read_now_ms(store)
    if as_json:
        told = [dataclasses.asdict(line) | {"lapsed": line.deadline_ms <= now_ms} for line in lines]
        print_json({"workers": told, "now_ms": now_ms})
        return
    rows = [
        (
            line.name or "-",
            line.kind,
            line.session_id[:8],
            duration(now_ms - line.opened_ms),
            f"{duration(now_ms - line.renewed_ms)} ago",
            f"in {duration(line.deadline_ms - now_ms)}" if line.deadline_ms > now_ms else "LAPSED",
            line.held,
            *[_count(line.info.get(fact)) for fact in ("hosts", "slots", "tools")],
            _takes(line.info),
            line.info.get("version", "-"),
            f"{line.info['host']}:{line.info.get('pid', '-')}" if "host" in line.info else "-",
        )
        for line in lines
    ]
    columns = (
        "name",
        "kind",
        "session",
        "age",
        "renewed",
        "lapses",
        "held",
        "hosts",
        "slots",
        "tools",
        "takes",
        "version",
        "process",
    )
    print_table(
        columns, rows, empty=f"No workers, and no programs that call in process, in namespace {namespace!r} at {where}."
    )


def _takes(info: dict[str, object]) -> str:
    if info.get("quiet") is True:
        return "nothing (quiet)"
    queues = info.get("queues")
    return ",".join(map(str, cast("list[object]", queues))) if isinstance(queues, list) else "-"


def _count(fact: object) -> object:
    if isinstance(fact, (list, dict)):
        return len(cast("list[object]", fact))
    return "-" if fact is None else fact
