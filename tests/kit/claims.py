"""Claims, decisions and repairs of holders without a queue, one call at a time, at the ledger's time."""

from __future__ import annotations

from dataclasses import dataclass

from kit.ledger import KINDS, Ledger, Passed, Reply
from mycelium.leases.scripts import Command
from mycelium.ledger.about import About
from mycelium.ledger.canon import canonical
from mycelium.ledger.claim import claim_script
from mycelium.ledger.decide import decide_script
from mycelium.ledger.identity import Scope, identify
from mycelium.ledger.repair import repair_script
from mycelium.ledger.states import Boundary, Drift
from mycelium.ledger.submit import Intent

NOTHING = b"{}"
"""A decision that nobody had anything to say to."""


def intent(
    tool: str, request_id: str | None = "r1", *, value: int = 1, dispatch_id: str = "", drift: Drift = Drift.SOFT
) -> Intent:
    """One intended effect; with a dispatch id it can be named twice, and its arguments can drift."""
    binding, scope = KINDS[tool], Scope(run_id="run")
    identity = identify(
        tool,
        binding.effect_class,
        canonical({"value": value}),
        request_id=request_id,
        namespace="n",
        dispatch_id=dispatch_id or None,
        scope=scope if dispatch_id else None,
    )
    about = About(dispatch_id=dispatch_id)
    return Intent(identity=identity, tool=tool, binding=binding, about=about, drift=drift)


def claiming(
    ledger: Ledger,
    tool: str,
    request_id: str | None = "r1",
    *,
    session: str = "s1",
    epoch: int | None = None,
    op: str = "",
    client: str = "",
    key: str = "",
    own: int | None = None,
    boundary: Boundary | str = "",
    expect: str = "",
    auth: str = "claim",
    window_ms: int = 0,
    **named: Passed,
) -> Command:
    """A claim; without `expect`, of a row that does not exist yet."""
    item = intent(tool, request_id, **named).item()
    return claim_script(
        session=session,
        epoch=ledger.epoch if epoch is None else epoch,
        op=op or ledger.op(),
        client=client,
        request_id=item.id,
        effect=item.effect,
        ticket=item.ticket,
        share=item.share,
        drift=item.drift,
        tool=item.tool,
        effect_class=item.effect_class,
        mode=item.mode,
        again=item.again,
        max_attempts=item.max_attempts,
        max_deaths=item.max_deaths,
        keep=item.keep,
        keep_result=item.keep_result,
        about=item.about,
        asked=item.asked,
        key=key,
        own=int(KINDS[tool].propagate_effect_id_as_provider_key) if own is None else own,
        boundary=boundary,
        expect=expect,
        auth=auth,
        window_ms=window_ms,
        body=item.body,
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a claim answered, as far as a holder acts on it."""

    word: str
    id: str
    liveness: str
    state: str
    fence: str
    version: str


def seen(reply: Reply) -> Seen:
    """Read the answer to a claim."""
    if reply[0] in {"granted", "known"}:
        return Seen(reply[0], *reply[2:7])
    return Seen(reply[0], reply[1] if len(reply) > 1 else "", "", reply[2] if len(reply) > 1 else "", "", "")


def claimed(ledger: Ledger, tool: str, request_id: str | None = "r1", **more: Passed) -> Seen:
    """Claim, and read the answer."""
    return seen(ledger.run(claiming(ledger, tool, request_id, **more)))


def version(ledger: Ledger, request_id: str = "r1") -> str:
    """What a ruling on the row as it stands has to expect."""
    return ledger.row(request_id)["n"]


def deciding(
    ledger: Ledger,
    request_id: str,
    fence: str,
    *,
    allowed: int = 1,
    boundary: Boundary | str = Boundary.MAYBE_CROSSED,
    session: str = "s1",
    epoch: int | None = None,
    op: str = "",
) -> Command:
    """A decision about a claimed attempt."""
    return decide_script(
        session=session,
        epoch=ledger.epoch if epoch is None else epoch,
        op=op or ledger.op(),
        request_id=request_id,
        fence=fence,
        allowed=int(allowed),
        decision=NOTHING,
        boundary=boundary,
    )


def repairing(tool: str, request_id: str = "r1") -> Command:
    """A repair of what is damaged."""
    item = intent(tool, request_id).item()
    return repair_script(
        request_id=request_id,
        effect=item.effect,
        effect_class=item.effect_class,
        mode=item.mode,
        keep=item.keep,
        keep_result=item.keep_result,
    )
