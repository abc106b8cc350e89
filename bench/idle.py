"""What an idle worker costs: commands a second at the server, and CPU of its processes.

Starts workers as people do, lets them settle, and counts for a while. Commands are counted as the server gets them from
the network (each script call is one), and those that scripts run inside are told beside it.

    python bench/idle.py                       # one worker, 20 seconds
    python bench/idle.py --workers 20 --seconds 60 --json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from redis import Redis

from mycelium.leases.embedded import EmbeddedServer

APP = """
from mycelium import tool

@tool(effect_class="read")
async def look(n: int) -> int:
    return n
"""
_INSIDE = {"evalsha", "eval"}
_TICKS = os.sysconf("SC_CLK_TCK")
_MEASURING = {"info", "slowlog", "config"}


def _family(pid: int) -> list[int]:
    """A worker and its hosts."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [one for child in children.read_text().split() for one in _family(int(child))]
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _commands(client: Any) -> dict[str, int]:  # noqa: ANN401 - the library's annotations have gaps
    stats: dict[str, dict[str, int]] = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): int(figures["calls"]) for name, figures in stats.items()}


def measure(workers: int, seconds: float, settle_s: float) -> dict[str, object]:
    """Count for so many seconds."""
    with tempfile.TemporaryDirectory() as place, EmbeddedServer.start() as server:
        Path(place, "idle_app.py").write_text(APP)
        environment = os.environ | {"MYCELIUM_URL": server.url, "PYTHONPATH": place}
        command = [sys.executable, "-m", "mycelium", "worker", "idle_app", "--hosts", "1"]
        running = [
            subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, cwd=place) for _ in range(workers)
        ]
        try:
            time.sleep(settle_s)
            client: Any = Redis.from_url(server.url)
            pids = [_family(worker.pid) for worker in running]
            before, spent = _commands(client), [[_cpu_s(pid) for pid in family] for family in pids]
            began = time.monotonic()
            time.sleep(seconds)
            took_s = time.monotonic() - began
            after, later = _commands(client), [[_cpu_s(pid) for pid in family] for family in pids]
        finally:
            for worker in running:
                worker.terminate()
            for worker in running:
                worker.wait()
    grown = {name: count - before.get(name, 0) for name, count in after.items() if name not in _MEASURING}
    scripts = sum(grown.get(name, 0) for name in _INSIDE)
    control = sum(now[0] - was[0] for now, was in zip(later, spent, strict=True))
    hosts = sum(sum(now[1:]) - sum(was[1:]) for now, was in zip(later, spent, strict=True))
    return {
        "workers": workers,
        "seconds": round(took_s, 1),
        "script_calls_per_worker_s": round(scripts / took_s / workers, 2),
        "commands_inside_scripts_per_worker_s": round((sum(grown.values()) - scripts) / took_s / workers, 2),
        "control_cpu_percent": round(100 * control / took_s / workers, 2),
        "hosts_cpu_percent": round(100 * hosts / took_s / workers, 2),
        "by_command": {name: round(n / took_s / workers, 2) for name, n in sorted(grown.items()) if n},
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--settle", type=float, default=8.0, help="seconds before the counting begins")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    told = measure(options.workers, options.seconds, options.settle)
    if options.json:
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    for name, value in told.items():
        sys.stdout.write(f"{name.replace('_', ' '):>40}  {value}\n")


if __name__ == "__main__":
    main()
