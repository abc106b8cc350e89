"""How a host ends, and what its owner is told. Real processes and signals."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kit.hosting import TOOLS, hosting, run_of, soon
from mycelium.actors.hosts.frames import Done, Outcome
from mycelium.actors.hosts.listener import ExitReason, HostExit
from mycelium.leases.errors import ActorStoppedError


async def test_kill_9_is_told_once_and_after_everything_that_was_sent() -> None:
    loop = asyncio.get_running_loop()
    async with hosting(slots=100) as control:
        for slot in range(1, 100):
            control.send("echo", slot, value=slot)
        control.send("die", how="kill")
        reason = await soon(control.exits.get())
        with pytest.raises(ActorStoppedError):
            control.send("echo", slot=5)
        control.host.kill()
        assert await control.host.stop(1) == reason
        assert control.exits.empty()
    assert (reason.signal, reason.why) == (signal.SIGKILL, ExitReason.CRASHED)
    assert control.order[-1] is reason
    # The thread that dies races with the loop that answers: what was answered was delivered, and nothing came twice.
    slots = [told.slot for told in control.order if isinstance(told, Done)]
    assert len(slots) == len(set(slots))

    async with hosting() as control:
        began = loop.time()
        os.kill(control.host.pid, signal.SIGKILL)
        await soon(control.exits.get())
        print(f"death was told after {(loop.time() - began) * 1000:.1f} ms")  # noqa: T201 - measured, not asserted


async def test_what_a_host_sent_before_its_death_is_delivered() -> None:
    async with hosting(slots=200) as control:
        for slot in range(150):
            control.send("echo", slot, value="x" * 100)
        control.send("die_some_turns_later", 150)
        await asyncio.sleep(0)  # this turn's frames are written at its end
        # This loop is not given the time to read anything before the host is gone.
        _until_dead(control.host.pid)
        reason = await soon(control.exits.get())
    assert reason == HostExit(7, None, ExitReason.CRASHED)
    assert control.order[-1] is reason
    assert {told.slot for told in control.order[:-1] if isinstance(told, Done)} == set(range(150))


def _until_dead(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        readable, _, _ = select.select([descriptor], [], [], 30)
        assert readable
    finally:
        os.close(descriptor)


async def test_a_tool_that_blocks_its_loop_makes_the_host_busy_not_dead() -> None:
    async with hosting() as control:
        control.send("block_the_loop", seconds=2.5)
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED
        while (await soon(control.pongs.get())).lag_s < 1:
            pass
        assert control.host.exited is None


async def test_a_plain_tool_that_holds_the_gil_is_ended_with_its_host() -> None:
    async with hosting(overrun_grace_s=0.2) as control:
        control.send("hang", slot=1)
        control.host.run(run_of("hold_the_gil", timeout_s=0.2))
        reason = await soon(control.exits.get())
    assert (reason.signal, reason.why, reason.overdue) == (signal.SIGKILL, ExitReason.OVERDUE, (0,))


@pytest.mark.parametrize("tool", ["hang_plain", "hang_stubbornly"])
async def test_a_tool_that_does_not_end_at_its_timeout_is_ended_with_its_host(tool: str) -> None:
    async with hosting(overrun_grace_s=0.2) as control:
        control.host.run(run_of(tool, 2, timeout_s=0.1))
        reason = await soon(control.exits.get())
        assert control.dones.empty()
    assert (reason.why, reason.overdue) == (ExitReason.OVERDUE, (2,))


async def test_a_tool_that_eats_memory_is_ended_with_its_host() -> None:
    async with hosting(memory_limit_mb=200) as control:
        control.send("eat_memory")
        reason = await soon(control.exits.get())
    assert (reason.signal, reason.why) == (signal.SIGKILL, ExitReason.MEMORY)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_host_leaves_signals_to_its_owner_but_its_tools_programs_do_not(number: signal.Signals) -> None:
    async with hosting() as control:
        os.kill(control.host.pid, number)
        assert (await control.run("echo")).outcome is Outcome.COMPLETED
        assert msgspec.json.decode((await control.run("terminate_a_program")).body) == -signal.SIGTERM


async def test_the_end_of_a_host_takes_the_programs_of_its_tools() -> None:
    async with hosting() as control:
        sleeper = msgspec.json.decode((await control.run("spawn_sleeper")).body, type=int)
        descriptor = os.pidfd_open(sleeper)
        control.host.kill()
        await soon(control.exits.get())
        assert select.select([descriptor], [], [], 30)[0]
        os.close(descriptor)


async def test_stop_waits_for_runs_within_its_grace() -> None:
    async with hosting() as control:
        control.host.run(run_of("finish_when_cancelled", timeout_s=0.3))
        reason = await control.host.stop(20)
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED
    assert (reason.returncode, reason.why) == (0, ExitReason.STOPPED)


async def test_stop_ends_a_host_whose_runs_do_not_end() -> None:
    for tool in ("hang_plain", "hang"):
        async with hosting() as control:
            control.send(tool)
            reason = await control.host.stop(0.1)
            assert reason.why is ExitReason.STOPPED
            assert control.dones.empty()


@pytest.mark.parametrize("how, why", [("rubbish", ExitReason.GARBLED), ("hang up", ExitReason.CRASHED)])
async def test_a_host_whose_socket_is_spoilt_is_ended(how: str, why: ExitReason) -> None:
    async with hosting() as control:
        control.send("spoil_the_socket", how=how)
        reason = await soon(control.exits.get())
    # When its end of the socket is shut, the host may be the first to notice, and leaves by itself.
    assert reason.returncode in {0, -signal.SIGKILL}
    assert reason.why is why


def test_end_of_file_on_the_socket_ends_a_host() -> None:
    ours, theirs = socket.socketpair()
    descriptor = theirs.fileno()
    arguments = [str(descriptor), str(os.getpid()), "1", "1000", "host_tools"]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, "-m", "mycelium.actors.hosts.child", *arguments]
    with ours, subprocess.Popen(command, pass_fds=[descriptor], env=environment) as process:
        theirs.close()
        assert ours.recv(100)
        ours.shutdown(socket.SHUT_RDWR)
        assert process.wait(30) == 0


CONTROL = """
import asyncio, socket, sys
from kit.hosting import Control, SETTINGS, replace
async def main():
    secret = "redis://:s3cret@127.0.0.1:6399/0"
    control = Control("host_tools", 2, replace(SETTINGS, store_url=secret, env={"SHOP_URL": "http://127.0.0.1:1/"}))
    with socket.socket() as store:
        store.bind(("127.0.0.1", 0)); store.listen(); store.set_inheritable(True)
        await control.host.start()
        print(control.host.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""

SECRETS = {
    "MYCELIUM_URL": "redis://:s3cret@127.0.0.1:6399/0",
    "MYCELIUM_TOKEN": "anything",
    "REDIS_PASSWORD": "s3cret",
    "APP_CACHE": "rediss://elsewhere:6380",
    "APP_STORE_ADDRESS": "127.0.0.1:6399",
    "SAFE": "kept",
}


def test_a_host_dies_with_its_owner_and_never_knew_the_store() -> None:
    environment = {**os.environ, **SECRETS, "PYTHONPATH": str(TOOLS.parents[1])}
    command = [sys.executable, "-c", CONTROL]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        proc = Path(f"/proc/{pid}")
        known = proc.joinpath("environ").read_text(encoding="utf-8").split("\0")
        command_line = proc.joinpath("cmdline").read_text(encoding="utf-8")
        shared = _sockets(pid) & _sockets(owner.pid)
        owner.kill()
        _until_dead(pid)
    told = "\n".join([*known, command_line])
    assert not [secret for secret in (*SECRETS.values(), "s3cret", "6399") if secret in told and secret != "kept"]
    assert {"SAFE=kept", "SHOP_URL=http://127.0.0.1:1/"} <= set(known)
    assert not shared


def _sockets(pid: int) -> set[str]:
    targets = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return {target for target in targets if target.startswith("socket:")}
