"""None of the faults D10 to D14 of the first seed can happen here."""

from __future__ import annotations

import functools

import pytest

from kit.inprocess import (
    CLASSES,
    DEAD,
    GRACE,
    Boom,
    Runs,
    World,
    again,
    together,
    tool,
)
from mycelium import (
    Binding,
    EffectClass,
    Scope,
    execution_scope,
    task_ledger_sync,
)

# ── D10: what a call is ──────────────────────────────────────────────────────────────────────────────────────────────


def test_d10_positional_keyword_and_default_are_one_call(here: World) -> None:
    runs = Runs()

    def body(x: int, y: int = 2) -> int:
        runs.note()
        return x + y

    act = tool(here.ledger(), body)
    with execution_scope(Scope(run_id="run")):
        assert [act(1), act(x=1), act(1, 2), act(y=2, x=1)] == [3, 3, 3, 3]
    assert runs.count == 1


OWN = ("node", "run_id", "thread_id", "request_id", "tool_call_id", "state_ref", "decision_id", "handoff_id")


def test_d10_parameters_of_the_tool_reach_it_whatever_they_are_called(here: World) -> None:
    def body(  # noqa: PLR0917 - the names that the first seed swallows
        node: str,
        run_id: str,
        thread_id: str,
        request_id: str,
        tool_call_id: str,
        state_ref: str,
        decision_id: str,
        parent_request_id: str,
        handoff_id: str,
    ) -> list[str]:
        return [
            node,
            run_id,
            thread_id,
            request_id,
            tool_call_id,
            state_ref,
            decision_id,
            parent_request_id,
            handoff_id,
        ]

    named = {name: name.upper() for name in (*OWN, "parent_request_id")}
    with execution_scope(Scope(run_id="run")):
        assert sorted(tool(here.ledger(), body)(**named)) == sorted(named.values())


# ── D11, D12, D13, D14 ───────────────────────────────────────────────────────────────────────────────────────────────


def test_d11_no_two_sessions_are_one(here: World) -> None:
    runs, seen = Runs(), set[str]()
    for at in range(12):
        kept = here.ledger()

        def body(order: int) -> int:
            runs.note()
            seen.add(here.session_of(f"r{order}"))
            return order

        assert tool(kept, body)(at, request_id=f"r{at}") == at
        kept.close()
        del kept
    assert runs.count == len(seen) == 12
    assert all(len(session) == 32 for session in seen)


def test_d12_a_task_of_many_threads_runs_once(here: World) -> None:
    runs, kept = Runs(), here.ledger()

    @task_ledger_sync(ledger=kept, effect_class="non_idempotent_mutate")
    def report(day: str) -> int:
        return runs.note(day)

    for at in range(20):
        assert together([functools.partial(report, "monday", task_id=f"t{at}")] * 8) == [at + 1] * 8


def test_d12_no_choice_of_values_looks_like_another_task(here: World) -> None:
    runs, kept = Runs(), here.ledger()

    @task_ledger_sync(ledger=kept, effect_class="non_idempotent_mutate", id_from=("a", "b"))
    def report(a: object, b: object, note: str = "") -> int:
        return runs.note((a, b, note))

    pairs: list[tuple[object, object]] = [
        ("x", "y:z"),
        ("x:y", "z"),
        ("a=b", "c"),
        ("a", "b=c"),
        ('x","y', ""),
        ("x", '","y'),
        (1, "1"),
        ("1", 1),
        (None, "null"),
        ([1, 2], "3"),
        ([1], [2, "3"]),
    ]
    assert [report(a, b) for a, b in pairs] == list(range(1, len(pairs) + 1))
    # Positional or by name, and whatever else it is told, it is the same task.
    assert report(b="y:z", a="x", note="again") == 1


def test_d13_a_read_that_runs_again_is_held_under_a_session(here: World) -> None:
    first, binding = here.ledger(session=GRACE), Binding(effect_class=EffectClass.READ)
    entry = first.claim("act", (), {"order": "A"}, binding, request_id="r1")
    first.record_decision(entry, {"allowed": True, "verdicts": [], "denied_reasons": []})
    first.fail(entry, Boom(), failed_after_effect=True)
    assert here.state("r1") == "unknown"
    second = here.ledger(session=GRACE)
    DEAD.append(second.claim("act", (), {"order": "A"}, binding, request_id="r1"))
    assert here.held() == {"r1"}
    # Its process dies as well: the next one waits for evidence, and then runs it.
    here.lapse(here.session_of("r1"), ago_s=61)
    again(here, Runs(), "read", explicit=False)
    assert here.state("r1") == "completed"


@pytest.mark.parametrize("effect_class", CLASSES)
def test_d14_a_death_before_the_decision_runs_again_under_a_new_fence(here: World, effect_class: str) -> None:
    binding = Binding(effect_class=EffectClass(effect_class))
    entry = here.ledger(session=GRACE).claim("act", (), {"order": "A"}, binding, request_id="r1")
    DEAD.append(entry)
    assert here.state("r1") == "claimed"
    here.lapse(here.session_of("r1"), ago_s=61)
    runs = Runs()
    assert int(again(here, runs, effect_class, explicit=False)) > int(entry.fence)
    assert (runs.count, here.state("r1")) == (1, "completed")
