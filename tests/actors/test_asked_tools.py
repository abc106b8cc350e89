"""Which tools the reconciler asks about or sends again by key."""

from __future__ import annotations

import random
from typing import Any, cast

from mycelium.actors.hosts.frames import ToolFacts
from mycelium.actors.worker.messages import HostReady
from mycelium.actors.worker.reconciler import ReconcilerActor
from mycelium.leases.store import Store
from mycelium.ledger.binding import Binding
from mycelium.ledger.states import Capability, EffectClass, RetryPermission, Spendability
from mycelium.reconcilers.resolve import AskedTool, ResolveSettings

WINDOW: dict[str, Any] = {"effect_class": EffectClass.KEYED_MUTATE, "key_param": "key", "key_window_s": 90.0}


async def test_only_what_may_be_sent_again_by_key_has_a_window() -> None:
    tools = {
        "keyed": ToolFacts(Binding(**WINDOW)),
        "asked": ToolFacts(Binding(reconcilable=True), lag_s=2.0),
        "asked, once": ToolFacts(Binding(**WINDOW, spendability=Spendability.NON_REPLAYABLE, reconcilable=True), 2.0),
        "blind": ToolFacts(Binding(**WINDOW, capability=Capability.BLIND)),
        "manual": ToolFacts(Binding(**WINDOW, retry_permission=RetryPermission.MANUAL)),
        "plain": ToolFacts(Binding()),
    }
    actor = ReconcilerActor(cast("Store", None), ResolveSettings(), every_s=1.0, timeout_s=1.0, rng=random.Random(0))
    await actor.receive(HostReady("host", 1, tools))
    assert actor._tools == {
        "keyed": AskedTool(None, 60.0, 90.0),
        "asked": AskedTool(2.0, 60.0, None),
        "asked, once": AskedTool(2.0, 60.0, None),
    }
