"""The metrics of one worker process in Prometheus' text format: what its vitals tell, under closed sets of labels.

What the fleet did is counted in the store, and told elsewhere: these numbers end with the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...ledger.states import Settle
from ..hosts.listener import ExitReason
from .vitals import HostVitals, SessionState, TurnsVitals, Unready, Vitals, unready

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "mycelium_worker_"


def expose(vitals: Vitals) -> bytes:
    """Write one look at a worker, with the process metrics of its control process.

    A part that does not answer is left out: a gap in a graph is true, and a zero would not be.
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Told(vitals))
    return generate_latest(registry)


class _Told(Collector):
    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterable[Metric]:
        vitals = self._vitals
        yield _gauge("info", "The version that runs.", {"version": version("mycelium")}, 1)
        yield from _readiness(vitals)
        yield from _lags(vitals)
        if vitals.turns is not None:
            yield from _turns(vitals.turns)
        yield from _hosts(vitals.hosts)
        if vitals.waiting is not None:
            yield _gauge("waiting_jobs", "Ready jobs that this worker could take.", {}, vitals.waiting)


def _readiness(vitals: Vitals) -> Iterable[Metric]:
    why = unready(vitals)
    yield _gauge("ready", "Whether it is ready: 1 or 0.", {}, why is None)
    family = GaugeMetricFamily(f"{_PREFIX}unready", "Why it is not ready: 1 at the reason.", labels=["reason"])
    for reason in Unready:
        family.add_metric([reason], float(reason is why))
    yield family


def _lags(vitals: Vitals) -> Iterable[Metric]:
    what = "How late an event loop was at worst, in the last minute or since the host told last; seconds."
    family = GaugeMetricFamily(f"{_PREFIX}loop_lag_seconds", what, labels=["loop"])
    family.add_metric(["control"], vitals.lag_s)
    for host in vitals.hosts:
        if host.running is not None:
            family.add_metric([host.name], host.lag_s)
    yield family


def _turns(turns: TurnsVitals) -> Iterable[Metric]:
    slots = GaugeMetricFamily(f"{_PREFIX}slots", "Slots of its running hosts.", labels=["state"])
    slots.add_metric(["free"], turns.free_slots)
    slots.add_metric(["running"], turns.running)
    yield slots
    session = GaugeMetricFamily(f"{_PREFIX}session", "How its session stands: 1 at the state.", labels=["state"])
    for state in SessionState:
        session.add_metric([state], float(state is turns.session))
    yield session
    yield _gauge("held_attempts", "Attempts that it holds, in whatever step.", {}, turns.held)
    yield _gauge("quiet", "Whether it was told to take nothing more: 1 or 0.", {}, turns.quiet)
    yield _gauge("store_answered_seconds", "Seconds since the store answered a turn.", {}, turns.answered_s)
    answers = CounterMetricFamily(f"{_PREFIX}turns", "Turns that the store answered.", labels=["outcome"])
    answers.add_metric(["ok"], turns.turns_ok)
    answers.add_metric(["refused"], turns.turns_refused)
    yield answers
    claims = CounterMetricFamily(f"{_PREFIX}claims", "Attempts that it was granted.")
    claims.add_metric([], turns.claimed)
    yield claims
    settled = CounterMetricFamily(f"{_PREFIX}settlements", "Settlements that the store took.", labels=["verb"])
    for verb in Settle:
        settled.add_metric([verb], turns.settled.get(verb, 0))
    yield settled


def _hosts(hosts: tuple[HostVitals, ...]) -> Iterable[Metric]:
    running = [host for host in hosts if host.running is not None]
    yield _gauge("hosts", "Tool hosts that run.", {}, len(running))
    # Each host counts for itself: when an actor begins a new life, its count alone begins again.
    starts = CounterMetricFamily(f"{_PREFIX}host_starts", "Host processes started.", labels=["host"])
    ends = CounterMetricFamily(f"{_PREFIX}host_ends", "Host processes ended.", labels=["host", "reason"])
    for host in hosts:
        starts.add_metric([host.name], host.starts)
        for reason in ExitReason:
            ends.add_metric([host.name, reason], host.ends.get(reason, 0))
    yield starts
    yield ends


def _gauge(name: str, what: str, labels: dict[str, str], value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{_PREFIX}{name}", what, labels=list(labels))
    family.add_metric(list(labels.values()), float(value))
    return family
