"""A host that does not answer is busy, not dead."""

from __future__ import annotations

from pathlib import Path

from kit.hosting import gate_in, hosting, soon
from mycelium.actors.hosts.frames import Outcome, Pong
from mycelium.actors.hosts.pulse import PING_EVERY_S, Pulse


async def test_a_blocked_loop_is_told_as_busy_when_it_begins_and_when_it_ends(tmp_path: Path) -> None:
    gate = gate_in(tmp_path)
    async with hosting("kit.isolated_tools", busy_after_s=0.3) as control:
        assert control.host.busy_s == 0.0
        control.send("block_the_loop", gate=str(gate))
        assert await soon(control.silences.get()) == 0.0
        assert control.host.busy_s >= 0.3
        assert control.host.lag_s >= 0.3
        gate.unlink()
        assert await soon(control.silences.get()) >= 0.3
        assert control.host.busy_s == 0.0
        assert (await soon(control.dones.get())).outcome is Outcome.COMPLETED
        assert control.host.exited is None


def test_one_ping_is_on_its_way_at_a_time_and_silence_is_told_once() -> None:
    pulse = Pulse(busy_after_s=1.0)
    assert pulse.next_ping(100.0) == 1
    assert pulse.next_ping(100.0 + PING_EVERY_S) is None
    assert not pulse.falls_silent(100.9)
    assert pulse.falls_silent(101.0)
    assert not pulse.falls_silent(102.0)
    assert pulse.hear(Pong(7, 0.0), 103.0) is None
    assert pulse.busy
    assert pulse.hear(Pong(1, 2.5), 103.0) == 3.0
    assert (pulse.busy, pulse.lag_s, pulse.silent_s(104.0)) == (False, 2.5, 0.0)
    assert pulse.next_ping(103.5) == 2
    assert pulse.hear(Pong(2, 0.0), 103.6) is None
