"""Receipts end to end: of workers and of ledgers in process, whatever ends them, and with nothing secret on the way."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chaos import tools
from chaos.stage import Stage, staged, until_async

from kit.receipts import KEY, KEYS, SECRET, facts, kept
from mycelium.actors.inprocess.action_ledger import ActionLedger
from mycelium.actors.inprocess.settings import LedgerSettings
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.leases.errors import LedgerHardBlockError, SettingsError
from mycelium.leases.store import Store, open_store
from mycelium.ledger.binding import Binding
from mycelium.ledger.receipts import MakeWriter, receipts_to
from mycelium.ledger.receipts.table import ReceiptTable
from mycelium.ledger.release import release
from mycelium.ledger.states import EffectClass, State

CHARGE = Binding(effect_class=EffectClass.NON_IDEMPOTENT_MUTATE)
PUT = Binding(effect_class=EffectClass.IDEMPOTENT_MUTATE)


@pytest.fixture
async def store(url: str, namespace: str) -> AsyncIterator[Store]:
    store = await open_store(url, namespace=namespace)
    yield store
    await store.aclose()


@pytest.fixture
async def stage(url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Workers with a receipt key."""
    monkeypatch.setenv("MYCELIUM_RECEIPT_KEY", KEY)
    async with staged(url, namespace, tmp_path / "stage") as made:
        yield made


@pytest.fixture(params=["file", "stream", "table"])
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where receipts go: each kind of sink in turn."""
    if request.param == "file":
        return str(tmp_path / "receipts.jsonl")
    if request.param == "stream":
        return "redis:"
    dsn: str = request.getfixturevalue("postgres_dsn")
    table = ReceiptTable(dsn)
    await table.create_table()
    await table.aclose()
    return dsn


async def test_a_worker_has_written_all_receipts_when_it_ends_in_good_order(
    stage: Stage, store: Store, address: str
) -> None:
    worker = await stage.start(receipts=address)
    for tool, key in ((tools.charge, "done"), (tools.refuse, "declined"), (tools.look, "seen")):
        await stage.submit(tool, key)
    await stage.ended(20)
    environments = await asyncio.to_thread(
        lambda: [Path(f"/proc/{host}/environ").read_bytes() for host in worker.hosts]
    )
    worker.kill(signal.SIGTERM)
    assert await worker.exited() == 0
    assert facts(await kept(address, store)) == [
        ("declined", "settled", "failed"),
        ("done", "settled", "completed"),
        ("seen", "settled", "completed"),
    ]
    assert environments
    for told in (worker.log.encode(), *environments):
        assert SECRET.hex().encode() not in told


async def test_what_a_killed_worker_left_in_doubt_gets_its_receipt_from_the_next_one(
    stage: Stage, store: Store, tmp_path: Path
) -> None:
    address = str(tmp_path / "receipts")
    first = await stage.start(receipts=address)
    gate = stage.gate()
    await stage.submit(tools.charge, "held", gate=gate.path)
    await stage.submit(tools.charge, "done")

    async def as_far() -> bool:
        return await stage.in_state(["done"], State.COMPLETED) and await stage.in_state(["held"], State.ATTEMPTING)

    await until_async(as_far)
    first.kill(signal.SIGKILL)
    second = await stage.start(receipts=address)
    await stage.ended(20, asked=False)
    second.kill(signal.SIGTERM)
    assert await second.exited() == 0
    assert facts(await kept(address, store)) == [("done", "settled", "completed"), ("held", "settled", "unknown")]


@pytest.mark.parametrize(
    "key, address, why",
    [("", "receipts", "no receipt key"), (KEY, "s3://opensesame", "no address for receipts")],
)
async def test_a_worker_that_could_write_none_does_not_start(stage: Stage, key: str, address: str, why: str) -> None:
    environment = {"MYCELIUM_RECEIPT_KEY": key, "MYCELIUM_RECEIPTS": address}
    worker = stage.spawn_command(environment, "--url", stage.url)
    assert await worker.exited() == 2
    assert why in worker.log
    assert "opensesame" not in worker.log


def test_an_address_with_a_password_is_not_shown() -> None:
    assert "opensesame" not in repr(WorkerSettings(app="tools", receipts="postgresql://ann:opensesame@host/books"))


def opened(url: str, namespace: str, receipts: MakeWriter) -> ActionLedger:
    return ActionLedger(url, namespace=namespace, settings=LedgerSettings(receipts=receipts))


def settle_in_every_way(ledger: ActionLedger) -> None:
    """Completed, failed, denied, in doubt; and failed, then done at once."""
    for name, end in (("done", None), ("failed", False), ("doubt", True), ("again", False), ("again", None)):
        binding = PUT if name == "again" else CHARGE
        entry = ledger.claim("charge", (), {"card": "opensesame"}, binding, request_id=name)
        ledger.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
        if end is None:
            ledger.complete(entry, "hunter")
        else:
            ledger.fail(entry, RuntimeError("hunter"), failed_after_effect=end)
    entry = ledger.claim("charge", (), {"card": "opensesame"}, CHARGE, request_id="denied")
    verdict = {"predicate": "budget", "allowed": False, "reason": "no budget"}
    ledger.record_decision(entry, {"allowed": False, "verdicts": [verdict], "denied_reasons": ["no budget"]})


IN_PROCESS = [
    ("again", "settled", "completed"),
    ("again", "settled", "failed"),
    ("denied", "settled", "failed"),
    ("done", "settled", "completed"),
    ("doubt", "settled", "unknown"),
    ("failed", "settled", "failed"),
]


async def test_a_ledger_in_process_has_written_all_receipts_when_it_is_closed(
    url: str, namespace: str, store: Store, address: str
) -> None:
    def work() -> None:
        with opened(url, namespace, receipts_to(address, keys=KEYS)) as ledger:
            settle_in_every_way(ledger)

    await asyncio.to_thread(work)
    found = await kept(address, store)
    assert facts(found) == IN_PROCESS
    [denied] = [one for one in found if one.request_id == "denied"]
    assert (denied.why, denied.error, denied.boundary) == ("denied", "Denied", "not_crossed")
    body = b"".join(one.body() for one in found)
    assert not [word for word in (b"opensesame", b"hunter", SECRET.hex().encode()) if word in body]


async def test_a_release_by_a_person_elsewhere_is_followed_by_the_next_ledger(
    url: str, namespace: str, store: Store, tmp_path: Path
) -> None:
    address = str(tmp_path / "receipts")
    receipts = receipts_to(address, keys=KEYS)

    def claim_doubtful(name: str) -> None:
        with opened(url, namespace, receipts) as ledger:
            entry = ledger.claim("charge", (), {}, CHARGE, request_id=name)
            ledger.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
            ledger.fail(entry, RuntimeError(), failed_after_effect=True)

    await asyncio.to_thread(claim_doubtful, "doubt")
    await release(store, "doubt", verified="completed", result=None, by="ann", reason="seen in the book")
    await asyncio.to_thread(claim_doubtful, "other")
    assert facts(await kept(address, store)) == [
        ("doubt", "released", "completed"),
        ("doubt", "settled", "completed"),
        ("doubt", "settled", "unknown"),
        ("other", "settled", "unknown"),
    ]


async def test_no_call_hears_of_a_sink_that_is_away_and_nothing_is_lost(
    url: str, namespace: str, store: Store, tmp_path: Path
) -> None:
    address = str(tmp_path / "none" / "receipts")

    def work() -> None:
        with opened(url, namespace, receipts_to(address, keys=KEYS)) as ledger:
            settle_in_every_way(ledger)
            with pytest.raises(LedgerHardBlockError):
                ledger.claim("charge", (), {"card": "opensesame"}, CHARGE, request_id="doubt")

    await asyncio.to_thread(work)
    assert await kept(address, store) == []
    (tmp_path / "none").mkdir()
    with opened(url, namespace, receipts_to(address, keys=KEYS)) as ledger:
        await ledger.wait_for_transition_async("done")
        await asyncio.to_thread(ledger.close)
    assert facts(await kept(address, store)) == IN_PROCESS


def test_a_ledger_whose_receipts_could_go_nowhere_does_not_open(url: str, namespace: str) -> None:
    with (
        opened(url, namespace, receipts_to("s3://opensesame", keys=KEYS)) as ledger,
        pytest.raises(SettingsError, match="no address for receipts"),
    ):
        ledger.record("any")
