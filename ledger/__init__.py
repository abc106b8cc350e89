"""What happened: one durable record for each intended effect, moved only by compare-and-set scripts.

    canon, identity ── what makes two calls the same: canonical arguments, request id, effect id
    binding         ── what a tool declares of itself, and what follows from its effect class
    states, views   ── the closed sets, and other words for them

    submit ───▶ delayed ─▶ ready ─▶ claimed ─▶ attempting ─▶ completed | failed | dead
                             ▲         │            │
                             └─ sweep ◀┴────────────┴─────▶ unknown ─▶ verdict, release: completed, or ready once more

    with a queue     submit   records and queues             turn    settles what ended and claims what is ready
    without one      claim    records and takes, or shows    gates   what a repeated dispatch gets: a pure function
                     decide   policy, before the body        repair  heals a damaged row
    both             mark     the point of no return         sweep   lapsed sessions, due rows
    afterwards       verdict  what a provider said           release, mark_dead   what a person says
    looking          record, listing, advice                 receipts             signed lines for audit

Each verb is one script in `lua/`; what scripts share is in `lua/lib/`: `record.lua` is the only place where a row is
read, moved and told of, `settle.lua` the only one where an attempt ends, `identity.lua` the only one that finds the
row which a call means.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """`from mycelium import ledger` finds this package, as it has the name; called, it is the decorator."""

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - see the decorator's own overloads
        """Decorate an async function: `actors/inprocess/decorators.py`."""
        return importlib.import_module("mycelium.actors.inprocess.decorators").ledger(*args, **options)


sys.modules[__name__].__class__ = _Package
