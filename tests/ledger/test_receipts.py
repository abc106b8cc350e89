"""Receipts: what is in them, what their signature covers, and that the row alone makes them again."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from kit.holder import holder
from kit.receipts import KEY, KEYS, SECRET, receipt, row
from mycelium.leases.errors import ReceiptError, SettingsError
from mycelium.ledger.about import About
from mycelium.ledger.binding import Binding
from mycelium.ledger.canon import canonical
from mycelium.ledger.identity import identify
from mycelium.ledger.past import PastWord
from mycelium.ledger.receipts import (
    Receipt,
    ReceiptKeys,
    ReceiptKind,
    ReceiptSigner,
    Row,
    Verdict,
    read_row,
    receipts_at,
    receipts_of,
    verify,
    verify_line,
)
from mycelium.ledger.record import Entry
from mycelium.ledger.states import Boundary, EffectClass, Settle, State
from mycelium.ledger.submit import Intent, submit

HEX = SECRET.hex()


def test_a_signed_receipt_is_read_back_and_verified() -> None:
    signed = receipt()
    assert Receipt.read(signed.body()) == signed
    assert verify(signed, KEYS).verdict is Verdict.OK
    assert verify_line(signed.body(), KEYS) == verify(signed, KEYS)


def test_another_language_can_verify_one_by_what_is_written_down() -> None:
    told = json.loads(receipt(error="Café", reason="“said so”").body())
    signature = told.pop("signature")
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest() == signature


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Receipt)])
def test_a_change_of_any_field_is_found(field: str) -> None:
    signed = receipt()
    before: Any = getattr(signed, field)
    others: dict[str, Any] = {
        "kind": ReceiptKind.RELEASED,
        "state": State.FAILED,
        "boundary": Boundary.NOT_CROSSED,
        "key_id": "key-2",
    }
    after = others.get(field, before + 1 if isinstance(before, int) else before + "x")
    changed = dataclasses.replace(signed, **{field: after})
    expected = {"key_id": Verdict.UNKNOWN_KEY, "version": Verdict.VERSION}.get(field, Verdict.BAD_SIGNATURE)
    assert verify(changed, KEYS).verdict is expected
    assert verify_line(changed.body(), KEYS).verdict is expected


def test_a_flipped_bit_is_found_in_every_byte() -> None:
    body = receipt(reason="“Café” says so").body()
    for at in range(len(body)):
        for bit in range(8):
            changed = bytearray(body)
            changed[at] ^= 1 << bit
            assert not verify_line(bytes(changed), KEYS).ok, (at, bit)


BODY = receipt().body()


@pytest.mark.parametrize(
    "body",
    [
        b" " + BODY,
        BODY.replace(b'"attempt":1', b'"attempt":1.0'),
        BODY.replace(b'"state":"completed"', b'"state":"failed","state":"completed"'),
        BODY.replace(b'"tool":', b'"extra":1,"tool":'),
        BODY.replace(b"charge", b"\\u0063harge"),
        BODY.replace(b'"by":"",', b""),
        b"",
        b"[]",
        b"null",
        b'{"version":"x"}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=itertools.count(),
)
def test_another_spelling_of_a_receipt_is_none(body: bytes) -> None:
    assert body != BODY
    assert verify_line(body, KEYS).verdict is Verdict.MALFORMED


def test_a_later_form_is_told_from_a_broken_one() -> None:
    assert verify_line(b'{"version":2,"all":"else"}', KEYS).verdict is Verdict.VERSION


def test_text_that_has_no_bytes_is_malformed() -> None:
    assert verify(dataclasses.replace(receipt(), signature="\udc80"), KEYS).verdict is Verdict.MALFORMED
    assert verify(dataclasses.replace(receipt(), by="\udc80"), KEYS).verdict is Verdict.MALFORMED


def test_an_id_that_the_storage_has_otherwise_is_found() -> None:
    signed = receipt()
    assert verify_line(signed.body(), KEYS, stored_as=signed.receipt_id).ok
    assert verify_line(signed.body(), KEYS, stored_as="f" * 64).verdict is Verdict.MALFORMED


def test_a_receipt_of_another_key_with_the_same_id_is_bad_and_of_a_key_that_is_not_there_unknown() -> None:
    other = ReceiptKeys({"key-1": bytes(32)})
    assert verify(receipt(), other).verdict is Verdict.BAD_SIGNATURE
    assert verify(receipt(), ReceiptKeys({"key-2": SECRET})).verdict is Verdict.UNKNOWN_KEY


def test_after_a_change_of_key_the_new_one_signs_and_the_old_one_still_verifies() -> None:
    old = receipt()
    keys = ReceiptKeys.read(f"key-2:{'cd' * 32}  # since May\n# the old one\n{KEY}\n", "the file")
    new = keys.signer.sign(old)
    assert (new.key_id, new.receipt_id) == ("key-2", old.receipt_id)
    assert verify(old, keys).ok
    assert verify(new, keys).ok


@pytest.mark.parametrize(
    "secret",
    [HEX, HEX.upper(), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"],
)
def test_a_key_is_hex_or_base64(secret: str) -> None:
    assert verify(receipt(), ReceiptKeys.from_environment({"MYCELIUM_RECEIPT_KEY": f"key-1:{secret}"})).ok


@pytest.mark.parametrize(
    "written, told",
    [
        ("", "no receipt key"),
        ("# nothing", "no receipt key"),
        (HEX, "without an id"),
        (f"a:{HEX} a:{HEX}", "an id twice"),
        (f"a:{HEX[:62]}", "has 31 bytes"),
        ("a:c2hvcnQ=", "has 5 bytes"),
        (f"a:{HEX[:-1]}!", "neither hex nor base64"),
        (f"a/b:{HEX}", "id of a receipt key"),
    ],
)
def test_what_is_no_key_is_refused_without_telling_it(written: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as refused:
        ReceiptKeys.read(written, "The file")
    assert HEX[:20] not in f"{refused.value!s} {refused.value!r} {refused.value.__cause__!r}"


def test_a_key_file_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY)
    assert verify(receipt(), ReceiptKeys.from_file(tmp_path / "keys")).ok
    with pytest.raises(SettingsError, match=r"none cannot be read: No such file"):
        ReceiptKeys.from_file(tmp_path / "none")


def test_nothing_shows_or_writes_down_a_key() -> None:
    signer = ReceiptSigner("key-1", SECRET)
    for shown in (repr(signer), str(KEYS), repr(vars(type(signer))), f"{signer}"):
        assert HEX not in shown
        assert repr(SECRET)[2:-1] not in shown
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(signer)


def one(row: Row) -> Receipt:
    """The one receipt of a row."""
    [receipt] = receipts_of(row)
    return receipt


def test_the_row_makes_the_same_receipt_again_whatever_was_noted_since() -> None:
    first = one(row())
    later = one(row(State.COMPLETED, *row().record.history, Entry(5, 9_000, "note", "3", "stale completed")))
    assert KEYS.signer.sign(first) == KEYS.signer.sign(later)
    assert (first.at_ms, first.why, first.fence, first.attempt) == (3_000, "settled", "7", 1)
    assert (first.agent_id, first.policy_version, first.result_sha256) == ("clerk", "7", "b" * 64)


RELEASED: dict[str, Any] = {
    "resolution": "completed",
    "resolved_by": "ann",
    "resolution_reason": "seen",
    "resolved_ms": 3_000,
}


def test_each_fact_has_an_id_of_its_own() -> None:
    found = [
        *receipts_of(row()),
        *receipts_of(row(request_id="charge-2")),
        *receipts_of(row(effect_id="f" * 64)),
        *receipts_of(row(State.COMPLETED, Entry(3, 3_000, "completed", "8", "settled"), fence="8")),
        *receipts_of(row(State.UNKNOWN)),
        *receipts_of(row(State.COMPLETED, Entry(3, 3_000, "completed", "9", "operator"), fence="9", **RELEASED)),
    ]
    assert len({receipt.receipt_id for receipt in found}) == len(found) == 7


def test_a_release_says_who_and_why_and_stays_the_same_while_the_job_runs_again() -> None:
    released = (
        Entry(3, 3_000, "unknown", "7", "settled"),
        Entry(4, 4_000, "ready", "8", "operator"),
    )
    told: dict[str, Any] = RELEASED | {"resolution": "not_executed", "resolved_ms": 4_000}
    before = row(State.READY, *released, boundary=Boundary.MAYBE_CROSSED, fence="8", **told)
    after = row(
        State.COMPLETED,
        *released, Entry(5, 5_000, "attempting", "9", "claim"), Entry(6, 6_000, "completed", "9", "settled"),
        fence="9", attempts=2, error="", **told,
    )  # fmt: skip
    doubt, first = receipts_of(before)
    same_doubt, again, outcome = receipts_of(after)
    assert (doubt, first) == (same_doubt, again)
    assert (first.kind, first.state, first.fence, first.at_ms) == (ReceiptKind.RELEASED, "ready", "8", 4_000)
    assert (first.by, first.reason, first.boundary) == ("ann", "seen", "not_crossed")
    assert (first.attempt, first.result_sha256) == (0, "")
    assert (outcome.kind, outcome.fence, outcome.by, outcome.attempt) == (ReceiptKind.SETTLED, "9", "", 2)


def test_an_earlier_release_is_told_from_what_the_row_keeps_of_the_past() -> None:
    moves = [
        Entry(3, 3_000, "unknown", "7", "settled"),
        Entry(4, 4_000, "ready", "8", "operator"),
        Entry(6, 6_000, "unknown", "9", "settled"),
        Entry(7, 7_000, "ready", "10", "operator"),
    ]
    last: dict[str, Any] = RELEASED | {"resolution": "not_executed", "resolved_ms": 7_000}
    told = row(State.READY, *moves, fence="10", **last)
    past = (PastWord("dead", "eve", "its host is gone", 4_000), PastWord("not_executed", "bob", "looked", 4_000))
    _, first, _, second = receipts_of(dataclasses.replace(told, past=past))
    assert [(one.fence, one.by, one.reason) for one in (first, second)] == [
        ("8", "bob", "looked"),
        ("10", "ann", "seen"),
    ]
    with pytest.raises(ReceiptError, match="does not reach back"):
        receipts_at(told, moves[1])


def test_of_an_outcome_that_the_row_has_left_only_what_the_move_tells_is_said() -> None:
    failed = Entry(3, 3_000, "failed", "7", "settled")
    moved_on = row(
        State.COMPLETED, failed, Entry(5, 5_000, "completed", "8", "settled"),
        fence="8", attempts=2, error="of another attempt",
    )  # fmt: skip
    at_once = one(row(State.FAILED, failed, boundary=Boundary.NOT_CROSSED, error="Declined"))
    [late] = receipts_at(moved_on, failed)
    assert (at_once.boundary, at_once.attempt, at_once.error) == ("not_crossed", 1, "Declined")
    assert (late.boundary, late.attempt, late.error, late.result_sha256) == ("maybe_crossed", 0, "", "")
    same = ("receipt_id", "state", "fence", "why", "at_ms", "tool", "request_id", "effect_id")
    assert [getattr(late, name) for name in same] == [getattr(at_once, name) for name in same]


def test_a_fact_that_was_only_noted_is_no_release() -> None:
    assert receipts_at(row(), Entry(5, 5_000, "note", "7", "operator")) == []


def test_what_has_not_settled_has_no_receipt() -> None:
    assert receipts_of(row(State.ATTEMPTING, Entry(2, 2_000, "attempting", "7", "claim"))) == []


def test_no_receipt_is_made_up_where_the_history_does_not_reach_back() -> None:
    notes = [Entry(number, number, "note", "7", "stale") for number in range(100, 164)]
    with pytest.raises(ReceiptError, match="does not reach back"):
        receipts_of(row(State.COMPLETED, *notes))
    with pytest.raises(ReceiptError, match="does not reach back"):
        receipts_of(row(State.READY, *notes, **RELEASED))


async def test_a_real_row_gives_its_receipt_and_neither_arguments_nor_result_are_in_it(
    url: str, namespace: str
) -> None:
    args = canonical({"card": "opensesame"})
    identity = identify("charge", EffectClass.NON_IDEMPOTENT_MUTATE, args, request_id="charge-1", namespace=namespace)
    told = b'{"detail":"pin hunter is wrong"}'
    async with holder(url, namespace, ["charge"]) as worker:
        about = About(agent_id="clerk")
        binding = Binding(effect_class=EffectClass.NON_IDEMPOTENT_MUTATE)
        await submit(worker.store.calls, [Intent(identity=identity, tool="charge", binding=binding, about=about)])
        [grant] = await worker.claim()
        await worker.settle(grant, Settle.FAILED, body=told, error="Declined")
        first = one(await read_row(worker.store, "charge-1"))
        again = one(await read_row(worker.store, "charge-1"))
        await worker.store.calls.read("DEL", worker.store.keys.result("charge-1"))
        after_retention = one(await read_row(worker.store, "charge-1"))
    body = KEYS.signer.sign(first).body()
    assert body == KEYS.signer.sign(again).body()
    assert (first.state, first.error, first.fence, first.agent_id) == ("failed", "Declined", grant.fence, "clerk")
    assert (first.effect_id, first.result_sha256) == (identity.effect_id, hashlib.sha256(told).hexdigest())
    assert after_retention == dataclasses.replace(first, result_sha256="")
    assert not [word for word in (b"opensesame", b"hunter", HEX.encode()) if word in body]


async def test_a_row_that_is_caught_between_two_moves_is_not_told(url: str, namespace: str) -> None:
    identity = identify("look", EffectClass.READ, b"{}", request_id="look-1", namespace=namespace)
    async with holder(url, namespace, ["look"]) as worker:
        await submit(worker.store.calls, [Intent(identity=identity, tool="look", binding=Binding())])
        await worker.store.calls.read("HINCRBY", worker.store.keys.row("look-1"), "n", 1)
        with pytest.raises(ReceiptError, match="changes all the time"):
            await read_row(worker.store, "look-1")
