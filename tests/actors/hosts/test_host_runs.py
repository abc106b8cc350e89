"""What one tool host does with good and bad runs. Real processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest

from kit.hosting import SETTINGS, Control, hosting, run_of, soon
from mycelium.actors.hosts.frames import Done, Outcome
from mycelium.leases.errors import BadCallError, PayloadTooLargeError, SettingsError
from mycelium.ledger.states import Boundary, EffectClass


def value(done: Done) -> object:
    assert done.outcome is Outcome.COMPLETED, done
    return msgspec.json.decode(done.body)


async def test_a_host_says_which_tools_it_has_and_what_they_declare() -> None:
    async with hosting() as control:
        tools = control.host.tools
    assert tools["keyed"].binding.effect_class is EffectClass.KEYED_MUTATE
    assert tools["keyed"].binding.key_param == "key"
    assert tools["doubtful"].lag_s == 2.0
    assert tools["echo"].lag_s is None


async def test_results_come_back_from_async_and_plain_tools() -> None:
    async with hosting() as control:
        assert value(await control.run("echo", value=[1, {"a": None}])) == [1, {"a": None}]
        assert value(await control.run("echo_plain")) is None


async def test_plain_tools_run_in_as_many_threads_as_there_are_slots() -> None:
    async with hosting(slots=3) as control:
        for slot in range(3):
            control.send("meet", slot, parties=3)
        names = {value(await soon(control.dones.get())) for _ in range(3)}
    assert len(names) == 3


async def test_a_tool_knows_its_call_and_gets_its_provider_key() -> None:
    async with hosting() as control:
        control.host.run(run_of("who_am_i", request_id="charge:1", effect_id="e1", fence="7", attempt=2))
        assert value(await soon(control.dones.get())) == ["charge:1", "e1", 2, "7", "who_am_i", True]
        control.host.run(run_of("keyed", 0, {"amount": 5}, effect_id="e2"))
        assert value(await soon(control.dones.get())) == [5, "e2"]
        control.host.run(run_of("keyed", 0, {"amount": 5, "key": "mine"}, effect_id="e2"))
        assert value(await soon(control.dones.get())) == [5, "mine"]


@pytest.mark.parametrize("flavour", ["raise_async", "raise_plain"])
@pytest.mark.parametrize(
    "what", ["SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit", "StopIteration"]
)
async def test_nothing_that_a_tool_raises_ends_its_host(flavour: str, what: str) -> None:
    async with hosting() as control:
        done = await control.run(flavour, what=what)
        assert done.outcome is Outcome.FAILED
        # Python itself turns StopIteration in a coroutine into RuntimeError.
        assert what in done.error_class + done.detail
        assert value(await control.run("echo", value=1)) == 1


async def test_exceptions_are_told_as_facts() -> None:
    async with hosting() as control:
        proved = await control.run("raise_async", what="NotExecuted")
        cut = await control.run("raise_plain", what="ValueError")
        rude = await control.run("raise_async", what="Rude")
    assert (proved.outcome, proved.detail) == (Outcome.NOT_EXECUTED, "the provider said 402")
    assert (cut.outcome, cut.error_class, len(cut.detail)) == (Outcome.FAILED, "ValueError", 500)
    assert (rude.outcome, rude.error_class) == (Outcome.FAILED, "host_tools.RudeError")


async def test_what_a_tool_leaves_in_the_loop_does_not_end_its_host() -> None:
    async with hosting() as control:
        assert value(await control.run("leave_a_bomb")) == "left"
        assert value(await control.run("echo", value=1)) == 1


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("dataclass", {"order": "ORD-1", "tags": ["a"]}),
        ("none", {"y": None}),
        ("bigint", 2**70),
        ("object", {"$unencodable": "object"}),
        ("nan", {"$unencodable": "dict"}),
        ("surrogate", {"$unencodable": "str"}),
        ("iterator", {"$unencodable": "list_iterator"}),
        ("large", {"$too_large": 2002}),
    ],
)
async def test_a_result_that_cannot_be_kept_is_still_a_completion(kind: str, expected: object) -> None:
    async with hosting(max_result_bytes=1000) as control:
        done = await control.run("result_of_kind", kind=kind)
    if kind == "bigint":
        assert done.body == str(expected).encode()
    else:
        assert value(done) == expected
    assert bool(done.error_class) == (isinstance(expected, dict) and any(key.startswith("$") for key in expected))


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", b"\xff\xfe", b'{"amount":"x"}', b'{"amount":1,"other":2}'])
async def test_arguments_that_do_not_fit_are_refused_before_the_body(body: bytes) -> None:
    async with hosting() as control:
        control.host.run(run_of("keyed", 0, body))
        done = await soon(control.dones.get())
        # What is an object may fit another version of the tool; what is none fits no tool.
        outcome = Outcome.REFUSED if body[:1] == b"{" else Outcome.NOT_EXECUTED
        assert (done.outcome, done.boundary) == (outcome, Boundary.NOT_CROSSED)
        assert "BadArgumentsError" in done.error_class
        control.host.run(run_of("no_such_tool"))
        assert (await soon(control.dones.get())).error_class == "mycelium.UnknownToolError"


async def test_a_run_into_a_taken_slot_or_above_the_frame_limit_is_not_sent() -> None:
    async with hosting() as control:
        control.send("hang")
        with pytest.raises(BadCallError):
            control.send("echo")
        with pytest.raises(PayloadTooLargeError):
            control.host.run(run_of("echo", 1, b"x" * (65 << 20)))
        control.send("echo", slot=1, value=1)
        assert value(await soon(control.dones.get())) == 1


async def test_an_async_tool_is_cancelled_at_its_timeout_or_on_request() -> None:
    async with hosting() as control:
        control.host.run(run_of("hang", timeout_s=0.05))
        timed_out = await soon(control.dones.get())
        control.send("hang")
        control.host.cancel(0)
        first = await soon(control.dones.get())
        await _begun(control)
        control.host.cancel(0)
        second = await soon(control.dones.get())
    assert timed_out.outcome is Outcome.TIMEOUT
    assert (first.outcome, first.error_class) == (Outcome.NOT_EXECUTED, "mycelium.NeverBegan")
    assert second.outcome is Outcome.CANCELLED


async def _begun(control: Control) -> None:
    control.send("hang")
    # Runs are taken in order, so when the echo is back the other has begun.
    control.send("echo", slot=1)
    await soon(control.dones.get())


async def test_a_result_that_comes_after_the_timeout_is_a_result() -> None:
    async with hosting() as control:
        control.host.run(run_of("finish_when_cancelled", timeout_s=0.2))
        assert value(await soon(control.dones.get())) == "it was done after all"


async def test_tools_that_cannot_be_loaded_are_told_at_start() -> None:
    for spec, words in (("no_such_module_here", "no module"), ("host_tools:nothing", "no attribute")):
        with pytest.raises(SettingsError, match=words):
            async with hosting(spec):
                pass


async def test_a_host_that_does_not_start_in_time_is_not_left_running() -> None:
    control = Control("host_tools", 1, replace(SETTINGS, start_within_s=0.001))
    with pytest.raises(SettingsError, match="did not start within"):
        await control.host.start()
    assert control.host.exited is not None
    assert control.exits.empty()


@pytest.mark.parametrize("slots, limit", [(0, 1000), (1, 0), (1, 1 << 40)])
def test_settings_out_of_range_are_refused(slots: int, limit: int) -> None:
    with pytest.raises(SettingsError):
        Control("host_tools", slots, replace(SETTINGS, max_result_bytes=limit))


async def test_ten_thousand_jobs_go_through_one_host_and_all_come_back() -> None:
    loop = asyncio.get_running_loop()
    async with hosting(slots=100) as control:
        began = loop.time()
        free, sent = list(range(100)), 0
        for _ in range(10_000):
            while free and sent < 10_000:
                control.send("echo", free.pop(), value=sent)
                sent += 1
            free.append((await soon(control.dones.get())).slot)
        seconds = loop.time() - began
    print(f"{10_000 / seconds:,.0f} jobs/s")  # noqa: T201 - a measurement, not an expectation
