"""A user of the server with fewer rights: a wake-up may be denied to it, and nothing is half done because of it."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

from redis.asyncio import Redis

from kit.fixtures import StartServer
from kit.holder import holder
from mycelium.actors.client import ClientSettings, connect
from mycelium.actors.tool import tool
from mycelium.ledger.states import State


@tool(effect_class="non_idempotent_mutate")
def charge(order: str) -> str:
    """Never run here: a holder claims by hand."""
    return order


async def test_a_user_that_may_not_publish_submits_and_settles(start_server: StartServer, namespace: str) -> None:
    server = start_server(port=0)
    async with Redis.from_url(server.url) as direct:
        await cast("Any", direct).execute_command(
            "ACL", "SETUSER", "limited", "on", ">word", f"~{{{namespace}}}*", "resetchannels", "+@all"
        )
    place = urlsplit(server.url)
    url = f"redis://limited:word@{place.hostname}:{place.port}"
    async with (
        connect(url, namespace=namespace, settings=ClientSettings(poll_s=0.05)) as client,
        holder(url, namespace, ["charge"]) as worker,
    ):
        job = await client.submit(charge.bind("o"), request_id="r")
        assert job.created
        for grant in await worker.claim():
            await worker.complete(grant, "done")
        assert await job.result(20) == "done"
        assert await job.state() is State.COMPLETED
