"""What docs/in-process.md and the README show of use in process runs as it stands there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import mycelium
from house.tree import ROOT
from kit.inprocess import World
from mycelium.actors.inprocess.decorators import default_ledger
from mycelium.leases import errors
from mycelium.leases.errors import LeaseError, LedgerError, MyceliumError

PAGE = (ROOT / "docs/in-process.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_GATEWAY = PAGE.partition("## ")[0]
_SECTION = README.partition("## Use it without a worker\n")[2].partition("\n## ")[0]


def run(text: str, name: str) -> dict[str, Any]:
    """Run the python blocks of a text as one program."""
    blocks = _BLOCK.findall(text)
    assert blocks, f"{name} shows nothing"
    names: dict[str, Any] = {"__name__": "__main__"}
    for at, block in enumerate(blocks, start=1):
        # Not under the annotations of this file: a reader's program has none of its imports from the future.
        exec(compile(block, f"{name}, block {at}", "exec", dont_inherit=True), names)  # noqa: S102 - it is our own text
    return names


@pytest.fixture(autouse=True)
def the_ledger_of_the_process(here: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MYCELIUM_URL", here.url)
    monkeypatch.setenv("MYCELIUM_NAMESPACE", here.namespace)
    default_ledger.cache_clear()
    yield
    default_ledger().close()
    default_ledger.cache_clear()


def test_the_page_runs_from_top_to_bottom_and_does_what_it_says(here: World) -> None:
    names = run(PAGE, "docs/in-process.md")
    here.idle()
    # ORD-1, its refund, ORD-2, ORD-3 twice, the mail, ORD-4 by both, the transfer.
    assert len(names["gateway"].charges) == 9
    states = {name: here.state(name) for name in ("refund:order:ORD-1", "mail:1", "pay:ORD-4", "book:ORD-4")}
    assert set(states.values()) == {"completed"}
    assert here.state("charge-order:ORD-5") == "failed"
    about = here.record("charge-order:ORD-5").about
    assert (about.parent_request_id, here.row("mail:1")["ref"]) == ("plan:run-7", "ch_6")
    assert [state for state, _ in here.history("pay:ORD-4")].count("unknown") == 1


def test_the_section_of_the_readme_runs(here: World) -> None:
    names = run(_GATEWAY + _SECTION, "README.md")
    here.idle()
    assert len(names["gateway"].charges) == 1


def test_the_table_of_errors_stands_in_the_order_of_a_chain_of_except() -> None:
    rows = re.findall(r"^\| `(\w+Error)`", PAGE, re.MULTILINE)
    kinds = [getattr(mycelium, name) for name in rows]
    assert len(kinds) == len(set(kinds)) == 9
    for at, kind in enumerate(kinds):
        assert not any(issubclass(later, kind) for later in kinds[at + 1 :]), kind
        assert issubclass(kind, MyceliumError)


def test_every_block_of_the_ledger_is_in_the_table() -> None:
    """What a decorated call may meet of the ledger's own refusals; the rest is what an operator asks for."""
    asked = {"LedgerOutcomeAlreadySetError", "LedgerReleaseRefusedError"}
    asked |= {"LedgerAlreadyResolvedError", "LedgerWorkerAliveError"}
    family = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    met = {kind.__name__ for kind in family if issubclass(kind, LedgerError | LeaseError)}
    met -= asked | {"LedgerError", "LeaseError"}
    assert met == {name for name in met if f"| `{name}` |" in PAGE}
