"""What makes two calls the same: the request id, the effect id, and the ticket that tells other arguments of one call.

An effect id is the SHA-256 of a JSON array, version 2, of what takes part in it (`docs/identity.md` lists the parts).
A request id of the host's own is kept as it is; without one it is derived, so that a replay of the call meets its row.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from ..leases.errors import BadArgumentsError, BadCallError, MissingRequestIdentityError
from .canon import CANON_VERSION

MAX_REQUEST_ID_BYTES = 256

_NOTHING = "Nothing was submitted."
_NAME_IT = f"{_NOTHING} Give a request id, or put the call into its run: execution_scope(run_id=…, step=…)."


@dataclass(frozen=True, slots=True)
class Identity:
    """What one intended effect is known by.

    Attributes:
        request_id: the storage identity: the caller's, or derived.
        effect_id: 64 hex digits: the dedupe identity, and the idempotency key that a provider gets.
        ticket: 64 hex digits that name the dispatch whatever its arguments, so that other arguments under it are
            noticed; empty where no dispatch id was given, or a request id was.
        share: 64 hex digits that name the dispatch with its arguments, so that two request ids of one dispatch are one
            effect; empty where no dispatch id was given.
        args: canonical arguments.
    """

    request_id: str
    effect_id: str
    ticket: str
    share: str
    # Arguments may be secrets of the caller's, and a repr ends up in logs.
    args: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a call stands in its agent's work. All of it takes part in a derived identity.

    Attributes:
        thread_id: the conversation.
        run_id: the agent's run.
        node: the place in the agent's graph.
        step: the model turn.
        ordinal: which one of several equal calls of one step, from 0: equal arguments do not mean equal intent (X10).
    """

    thread_id: str | None = None
    run_id: str | None = None
    node: str | None = None
    step: int | None = None
    ordinal: int = 0


_NOWHERE = Scope()
_NO_PLACE = ["", "", "", "", ""]


def identify(  # noqa: PLR0913 - an identity is made of all of it
    tool: str,
    effect_class: str,
    args: bytes,
    *,
    namespace: str,
    request_id: str | None = None,
    dispatch_id: str | None = None,
    scope: Scope | None = None,
    destination: bytes = b"",
    agent_id: str = "",
    policy_version: str = "",
) -> Identity:
    """Name one intended effect.

    With an explicit request id, neither scope nor dispatch is part of the effect: the host owns it, and a restarted
    run, or a replay under an id that a framework made anew, meets the same row. A dispatch id is unique only in its
    scope: with it, two request ids of one dispatch and the same arguments share a row. The derived request id names
    neither class, agent nor policy: a replay after the tool was declared anew finds its row, and is refused as
    another effect instead of running as a new one. The namespace is part of the effect id, since it is what a
    provider is sent: two namespaces that share a provider's account must not be taken for one.

    Args:
        tool: the tool's name.
        effect_class: the tool's effect class.
        args: what `canonical` gave for the meaningful arguments.
        namespace: the namespace of the ledger.
        request_id: the host-owned identity of the intended effect.
        dispatch_id: the framework's own id of this call, stable over its replays.
        scope: where the call stands.
        destination: the canonical form of the argument that names the receiver, or nothing.
        agent_id: the agent that the tool acts for.
        policy_version: the version of the rules that it acts under.

    Raises:
        MissingRequestIdentityError: there is neither a request id nor a dispatch, run or thread id, or one is blank.
        BadCallError: an id is too long or not text.
    """
    own, ticket = None if request_id is None else _request_id(request_id), ""
    dispatch = _id("dispatch id", dispatch_id)
    place = _place(scope or _NOWHERE) if dispatch or own is None else _NO_PLACE
    named = ("derived", dispatch, *place) if own is None else ("explicit", own, *_NO_PLACE)
    if own is None:
        if not (dispatch or place[0] or place[1]):
            what = "The call has no request, dispatch, run or thread id: a retry could not be told from a new call."
            raise MissingRequestIdentityError(what, next_step=_NAME_IT)
        own = _digest("request", dispatch, *place, tool, args.decode())
        ticket = _digest("ticket", tool, place[1] or place[0], dispatch) if dispatch else ""
    whose = (tool, effect_class, agent_id, policy_version, destination.decode(), args.decode())
    share = _digest("share", namespace, dispatch, *place, *whose) if dispatch else ""
    return Identity(own, _digest("effect", namespace, *named, *whose), ticket, share, args)


def request_id_from(tool: str, param: str, value: object) -> str:
    """Make the request id of a tool that declares which argument names the effect: `charge:order:ORD-1`.

    Args:
        tool: the tool's name.
        param: the parameter.
        value: the validated argument.

    Raises:
        MissingRequestIdentityError: the argument is missing, blank or not text.
    """
    if not isinstance(value, str) or not (text := str.__str__(value).strip()):
        what = f"The argument {param!r} of {tool!r} names the effect, and is missing, blank or not text."
        raise MissingRequestIdentityError(what, next_step=f"{_NOTHING} Pass the stable id of what is to be done.")
    return f"{tool}:{param}:{text}"


def _place(scope: Scope) -> list[str]:
    ids = [_id("thread id", scope.thread_id), _id("run id", scope.run_id), _id("node", scope.node)]
    return [*ids, "" if scope.step is None else str(int(scope.step)), str(int(scope.ordinal))]


def _id(name: str, value: object) -> str:
    if value is None:
        return ""
    text = _text(name, value)
    if not text.strip():
        raise MissingRequestIdentityError(f"The {name} is blank.", next_step=_NAME_IT)
    return text


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadCallError(f"The {name} is a {type(value).__name__}, not text.", next_step=f"{_NOTHING} Pass text.")
    # Not str(): an enumeration that is text has its text here, not its name.
    text = str.__str__(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        what = f"The {name} has a lone surrogate, which is not text."
        raise BadArgumentsError(what, next_step=f"{_NOTHING} Pass text.") from None
    return text


def _digest(kind: str, *parts: str) -> str:
    # A JSON array is self-delimiting: no choice of parts can look like another.
    preimage = json.dumps([f"mycelium.{kind}/v{CANON_VERSION}", *parts], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(preimage.encode()).hexdigest()


def _request_id(request_id: object) -> str:
    next_step = f"{_NOTHING} Pass a stable id of the intended effect, such as 'charge-order:ORD-1'."
    if not isinstance(request_id, str) or not request_id.strip():
        raise BadCallError("The request id is blank or not text.", next_step=next_step)
    text = _text("request id", request_id)
    if len(text.encode()) > MAX_REQUEST_ID_BYTES:
        raise BadCallError(f"The request id is longer than {MAX_REQUEST_ID_BYTES} bytes.", next_step=next_step)
    if not text.isprintable():
        raise BadCallError("The request id has a character that cannot be printed.", next_step=next_step)
    return text
