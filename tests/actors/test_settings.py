"""Settings of a worker that cannot work are refused before anything starts, and say what to give instead."""

from __future__ import annotations

from typing import Any

import pytest

from mycelium.actors.hosts.host import MAX_RESULT_BYTES
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.leases.errors import SettingsError


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": 0},
        {"slots": 0},
        {"solo": -1},
        {"poll_s": 0.0},
        {"poll_s": float("nan")},
        {"grace_s": -1.0},
        {"overdue_s": 0.0},
        {"presumed_dead_s": 0.0},
        {"max_result_bytes": 0},
        {"max_result_bytes": MAX_RESULT_BYTES + 1},
        {"host_memory_mb": 63},
        {"recycle_jobs": 0},
        {"recycle_memory_mb": 63},
        {"recycle_memory_mb": 512, "host_memory_mb": 512},
        {"health_port": 65536},
        {"metrics_port": -1},
    ],
    ids=str,
)
def test_a_value_out_of_its_range_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        WorkerSettings(app="shop.tools", **wrong)
    assert next(iter(wrong)) in f"{refused.value.what} {refused.value.next_step}"


def test_what_an_operator_may_set_together_is_taken() -> None:
    settings = WorkerSettings(
        app="shop.tools", solo=0, grace_s=0.0, host_memory_mb=1024, recycle_memory_mb=512, health_port=0, metrics_port=0
    )
    assert settings.death_s == 2 * settings.session.ttl_s
