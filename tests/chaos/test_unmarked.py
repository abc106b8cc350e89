"""No effect begins without its mark, however long the mark does not get through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chaos import tools
from chaos.stage import MARK, TTL_S, Stage

from kit.proxy import FaultProxy
from mycelium.ledger.states import TERMINAL, State


async def test_an_effect_whose_mark_does_not_get_through_does_not_begin(
    stage: Stage, url: str, start_proxy: Callable[[str], Awaitable[FaultProxy]]
) -> None:
    proxy = await start_proxy(url)
    worker = await stage.start(proxy.url)
    for nth in range(1, 1000):
        proxy.cut_before(MARK, nth=nth)
    automatic = await stage.submit(tools.charge, "automatic")
    explicit = await stage.submit(tools.charge_marked, "explicit")
    # The mark is tried as long as the session is trusted; after that there is no leave to begin: it is given back.
    await asyncio.sleep(TTL_S)
    assert not stage.effects
    proxy._arms.clear()
    await stage.ended(3 * TTL_S)
    records = await stage.check()
    assert records[automatic].state is State.COMPLETED
    assert records[automatic].attempts == 1
    assert records[explicit].state in TERMINAL
    assert worker.log.count("opened in epoch") == 1
