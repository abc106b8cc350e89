"""What type checkers see of a recorded function, what names its calls apart, and what `help()` tells."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from house.tree import ROOT
from kit.inprocess import Runs, World
from mycelium import (
    ActionLedger,
    BadArgumentsError,
    BadCallError,
    MissingRequestIdentityError,
    ToolDeclarationError,
    ledger_sync,
    task_ledger,
    task_ledger_sync,
)
from mycelium.actors.inprocess.decorators import LedgerOptions, ledger
from mycelium.actors.inprocess.tasks import TaskOptions
from mycelium.actors.naming import NameOptions

PROGRAM = """
import asyncio
from collections.abc import Callable
from typing import assert_type
from mycelium import ledger, ledger_sync, task_ledger, task_ledger_sync, tool

@ledger_sync(effect_class="read")
def look(order: str, cents: int = 0) -> bytes: return b""
@ledger(effect_class="read")
async def ask(order: str) -> bytes: return b""
@ledger_sync
def bare(order: str) -> None: ...
@task_ledger_sync(effect_class="read", id_from=["order"])
def work(order: str) -> int: return 1
@task_ledger(effect_class="read")
async def toil(order: str) -> int: return 1
@ledger_sync()
@tool(effect_class="read")
def declared(order: str) -> int: return 1

async def fits() -> None:
    assert_type(look("A", 1), bytes)
    assert_type(look("A", cents=1, request_id="r"), bytes)
    assert_type(look("A", tool_call_id="t", decision_id="d"), bytes)
    assert_type(look.named(request_id="r", run_id="1", step=2)("A", cents=1), bytes)
    assert_type(await ask("A", dispatch_id="d"), bytes)
    assert_type(await ask.named(request_id="r")("A"), bytes)
    assert_type(await asyncio.to_thread(look, "A", 1, request_id="r"), bytes)
    assert_type(await asyncio.create_task(ask("A", request_id="r")), bytes)
    assert_type(work("A"), int)
    assert_type(work("A", task_id="t"), int)
    assert_type(await toil.named(task_id="t")("A"), int)
    assert_type(declared("A"), int)
    bare("A", request_id="r")
    taken: Callable[[str, int], bytes] = look
    name: str = look.ledgered.tool.name + look.__name__
asyncio.run(ask("A", request_id="r"))

async def does_not_fit() -> None:
    look("A", "1")  # E: call-overload
    look()  # E: call-overload
    look.named(request_id="r")("A", "1")  # E: arg-type
    look.named(request="r")  # E: call-arg
    look.named(step="2")  # E: arg-type
    look("A", request_id=1)  # E: call-overload
    ask("A", request_id="r")  # E: unused-coroutine
    wrong: int = look("A", request_id="r")  # E: assignment
    work(1)  # E: call-overload
    work("A", request_id="r")  # E: call-overload
    toil.named(request_id="r")  # E: call-arg
    toil("A", task_id="t")  # E: unused-coroutine
    ledger_sync(effect="read")  # E: call-overload
    ledger_sync(id_from=["order"])  # E: call-overload
@ledger(effect_class="read")  # E: arg-type
def plain() -> int: return 1
"""


def checked(program: str, folder: Path) -> set[tuple[int, str]]:
    """Line and code of every error that mypy finds in a program."""
    package = folder / "mycelium"
    package.mkdir()
    for file in [*ROOT.glob("*/__init__.py"), ROOT / "__init__.py", ROOT / "py.typed"]:
        target = file if file.parent == ROOT else file.parent
        (package / target.name).symlink_to(target)
    (folder / "program.py").write_text(program)
    asked = [sys.executable, "-m", "mypy", "--strict", "--enable-error-code=unused-coroutine", "--no-error-summary"]
    found = subprocess.run(
        [*asked, "--config-file=", f"--cache-dir={folder / 'cache'}", "program.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not found.stderr, found.stderr
    told = re.findall(r"^program\.py:(\d+): error: .*\[([a-z-]+)\]$", found.stdout, re.MULTILINE)
    return {(int(line), code) for line, code in told}


def test_a_type_checker_sees_parameters_results_and_names(tmp_path: Path) -> None:
    lines = enumerate(PROGRAM.splitlines(), start=1)
    expected = {(at, line.partition("# E: ")[2]) for at, line in lines if "# E: " in line}
    assert checked(PROGRAM, tmp_path) == expected


# ── names apart ──────────────────────────────────────────────────────────────────────────────────────────────────────


def charging(kept: ActionLedger, runs: Runs) -> Any:  # noqa: ANN401 - the wrapped function
    @ledger_sync(effect_class="non_idempotent_mutate", ledger=kept)
    def charge(order: str, request_id: str = "the function's own") -> list[str]:
        runs.note(order)
        return [order, request_id]

    return charge


def test_a_name_that_is_given_apart_leaves_a_parameter_of_that_name_alone(here: World) -> None:
    runs = Runs()
    charge = charging(here.ledger(), runs)
    for _ in range(2):
        assert charge.named(request_id="r1")("A", request_id="own") == ["A", "own"]
    assert (runs.count, here.state("r1")) == (1, "completed")


def test_a_name_that_is_given_apart_may_be_all_that_a_name_has(here: World) -> None:
    runs, kept = Runs(), here.ledger()
    charge = charging(kept, runs)
    for step in (1, 1, 2):
        charge.named(run_id="run-1", step=step)("A")
    assert runs.count == 2
    told: NameOptions = {
        "request_id": "r1",
        "dispatch_id": "d1",
        "thread_id": "t1",
        "run_id": "run-1",
        "node": "pay",
        "step": 3,
        "ordinal": 1,
        "tool_call_id": "c1",
        "parent_request_id": "p1",
        "handoff_id": "h1",
        "decision_id": "x1",
        "state_ref": "s1",
    }
    assert told.keys() == NameOptions.__annotations__.keys()
    charge.named(**told)("B")
    about = kept.record("r1").about
    assert {name: getattr(about, name) for name in told if hasattr(about, name)}.items() <= told.items()
    assert about.node == "pay"


async def test_an_async_function_and_tasks_are_named_apart_too(here: World) -> None:
    runs, kept = Runs(), here.ledger()

    @ledger(effect_class="non_idempotent_mutate", ledger=kept)
    async def charge(order: str) -> int:
        return runs.note(order)

    @task_ledger(effect_class="non_idempotent_mutate", ledger=kept)
    async def work(order: str) -> int:
        return runs.note(order)

    assert inspect.iscoroutinefunction(charge.named(request_id="r1"))
    assert [await charge.named(request_id="r1")("A") for _ in range(2)] == [1, 1]
    assert [await work.named(task_id="t1")(order) for order in ("A", "B")] == [2, 2]


def test_what_is_no_name_is_refused_before_it_names_anything(here: World) -> None:
    runs, kept = Runs(), here.ledger()
    charge = charging(kept, runs)
    with pytest.raises(BadCallError):
        charge.named(dispatch_id=" ")
    with pytest.raises(BadCallError):
        charge.named(request_id=" ")("A")
    with pytest.raises(BadArgumentsError):
        charge.named(request_id="r1")("A", dispatch_id="d1")
    task: Any = task_ledger_sync(effect_class="read", ledger=kept)(runs.note)
    for name in ({}, {"task_id": ""}, {"task_id": 1}):
        with pytest.raises(MissingRequestIdentityError):
            task.named(**name)
    with pytest.raises(BadCallError):
        task.named(task_id="t1", request_id="r1")
    assert runs.count == 0


# ── declarations ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_text_in_place_of_a_list_of_parameters_is_refused() -> None:
    def work(o: str, order: str) -> None: ...

    with pytest.raises(ToolDeclarationError, match="text and not a list") as refused:
        task_ledger_sync(effect_class="read", id_from="order")(work)
    assert refused.value.next_step == "Write id_from=['order']."


def test_what_names_a_task_is_no_option_of_a_call() -> None:
    def call(order: str) -> None: ...

    options: Any = {"effect_class": "read", "id_from": ["order"]}
    with pytest.raises(ToolDeclarationError, match="id_from"):
        ledger_sync(**options)(call)


@pytest.mark.parametrize("name", ["queue", "priority", "isolation", "idle_timeout_s", "limits", "non_retryable"])
def test_what_only_jobs_have_is_refused_where_there_are_none(name: str) -> None:
    def call(order: str) -> None: ...

    options: Any = {"effect_class": "read", name: ()}
    for decorator in (ledger_sync, task_ledger_sync):
        with pytest.raises(ToolDeclarationError, match=f"{name} says how jobs wait"):
            decorator(**options)(call)


@pytest.mark.parametrize("decorator", [ledger, ledger_sync, task_ledger, task_ledger_sync])
def test_help_tells_every_option(decorator: object) -> None:
    told = set(re.findall(r"^    (\w+): ", inspect.getdoc(decorator) or "", re.MULTILINE))
    options = TaskOptions if "task" in getattr(decorator, "__name__", "") else LedgerOptions
    assert options.__optional_keys__ <= told
