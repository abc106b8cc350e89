"""Programs that tools started end with their host, also when the control process is killed; so does the guardian."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.hosting import TOOLS, hosting
from kit.launching import ProcessEnd

CONTROL = """
import asyncio, sys
from kit.hosting import Control, SETTINGS
async def main():
    control = Control("rude_tools", 2, SETTINGS)
    await control.host.start()
    control.send("spawn_and_wait", tell=sys.argv[1])
    print(control.host.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def guardians_of(host: int) -> list[int]:
    """By their last argument, which names the group that they end."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"/bin/sh" and words[-2] == str(host).encode():
            found.append(int(entry.parent.name))
    return found


def test_kill_9_of_the_control_process_takes_the_programs_of_the_tools(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)  # reading waits for the writer
    path = os.pathsep.join([str(TOOLS.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", CONTROL, str(told)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as owner:
        try:
            assert owner.stdout is not None
            host = int(owner.stdout.readline())
            ends = [ProcessEnd(int(told.read_text(encoding="ascii"))), *map(ProcessEnd, guardians_of(host))]
        finally:
            owner.kill()
    came = [end.comes_within(10) for end in ends]
    for end in ends:
        with end:
            end.force()
    assert came == [True, True]


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_guardian_ends_with_its_host_and_is_none_of_its_children(how: str) -> None:
    async with hosting("rude_tools") as control:
        host = control.host.pid
        (guardian,) = guardians_of(host)
        children = Path(f"/proc/{host}/task/{host}/children").read_text(encoding="ascii")  # noqa: ASYNC240 - a local file
        assert not children
        with ProcessEnd(guardian) as end:
            if how == "stop":
                await control.host.stop(5)
            else:
                control.host.kill()
                await control.host.wait()
            assert end.comes_within(10)
