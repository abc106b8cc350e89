"""What a caller hands in, and the checks that turn it into an intent: whatever is wrong is refused before a write."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from ..leases.errors import BadArgumentsError, BadCallError, UnknownToolError
from ..ledger.binding import Binding
from ..ledger.states import Drift
from ..ledger.submit import Intent, Retention
from .job_options import WaitOptions, Waits
from .naming import NameOptions, Naming, check_retention, is_a, key_of, wrong
from .tool import Call, Tool

AnyTool = Tool[..., Any]
AnyCall = Call[Any]

_NOTHING = "Nothing was submitted."
_DEFAULT_RETENTION = Retention()


class CallOptions(NameOptions, WaitOptions, total=False):
    """What may be said of one call beside its arguments.

    Attributes:
        drift: what happens when the same dispatch id comes with other arguments: `soft`, `hard` or `off`.
        retention: how long row and result are kept after the end.
    """

    drift: Drift
    retention: Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said(Waits, Naming):
    """What stands in a submission beside the call itself, by name only."""

    drift: Drift = Drift.SOFT
    retention: Retention = _DEFAULT_RETENTION


@dataclass(frozen=True, slots=True)
class Submission(_Said):
    """One call to be submitted: `Submission(charge.bind(order="ORD-1"), request_id="charge-order:ORD-1")`.

    Attributes:
        call: a bound call, or the name of a tool that the client knows.
        arguments: the arguments by name, where the tool is named; else None.
        request_id: and all that follows: see `CallOptions`.
    """

    call: AnyCall | str
    arguments: Mapping[str, object] | None = None

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<submission of {self.call!r}>"


def tools_by_name(tools: Iterable[AnyTool] | Mapping[str, AnyTool]) -> dict[str, AnyTool]:
    """List the tools that calls may name.

    Raises:
        BadCallError: something that is no tool is among them, or two tools share a name.
    """
    found: dict[str, AnyTool] = {}
    listed = cast("Mapping[str, AnyTool]", tools).values() if isinstance(tools, Mapping) else tools
    for tool in listed:
        if not is_a(tool, Tool):
            what = f"A {type(tool).__name__} among tools= is no tool."
            raise BadCallError(what, next_step="Decorate the function with @tool.")
        if found.setdefault(tool.name, tool) is not tool:
            raise BadCallError(f"Two tools are called {tool.name!r}.", next_step="Give one another name with name=.")
    return found


def intent_of(submission: Submission, tools: Mapping[str, AnyTool], *, namespace: str, max_args_bytes: int) -> Intent:
    """Check one submission and name its effect.

    Args:
        submission: what the caller handed in.
        tools: the tools that may be named.
        namespace: the namespace that it is submitted to.
        max_args_bytes: the limit on the canonical arguments.

    Raises:
        BadCallError: anything about it is wrong; its subclasses say what.
    """
    call = _bound(submission, tools)
    tool, binding = call.tool, call.tool.binding
    _check_options(submission, binding)
    wired = tool.to_wire(call.arguments, max_bytes=max_args_bytes)
    identity = submission.identity(tool.name, binding, wired, namespace=namespace)
    return Intent(
        identity=dataclasses.replace(identity, args=wired.body),
        tool=tool.name,
        binding=binding,
        about=msgspec.structs.replace(submission.about(binding), labels=submission.checked_labels()),
        drift=submission.drift,
        asked=tool.reconciler is not None or binding.resends,
        key=key_of(binding, wired.values),
        retention=submission.retention,
        **submission.on_record(tool.name, tool.terms, binding, wired.values),
    )


def _bound(submission: Submission, tools: Mapping[str, AnyTool]) -> AnyCall:
    call = submission.call
    if isinstance(call, Call):
        if submission.arguments is not None:
            what = "The call is bound already, and arguments came with it."
            raise BadCallError(what, next_step=f"{_NOTHING} Bind all arguments, or name the tool and pass them.")
        return call
    if not is_a(call, str):
        what = f"A {type(call).__name__} is no call."
        raise BadCallError(what, next_step=f"{_NOTHING} Pass tool.bind(…), or the name of a tool and its arguments.")
    tool = tools.get(call)
    if tool is None:
        raise _unknown(call, tools)
    arguments: Mapping[str, object] = {} if submission.arguments is None else submission.arguments
    if not is_a(arguments, Mapping):
        what = f"The arguments of {call!r} are a {type(arguments).__name__}, not an object with the parameters' names."
        raise BadArgumentsError(what, next_step=f"{_NOTHING} Pass them by name.")
    _check_names(call, arguments)
    return Call(tool, dict(arguments))


def _check_names(tool: str, arguments: Mapping[str, object]) -> None:
    for name in arguments:
        if not is_a(name, str):
            what = f"The arguments of {tool!r} have a key that is a {type(name).__name__}; parameters have names."
            raise BadArgumentsError(what, next_step=f"{_NOTHING} Pass them by name.")


def _unknown(name: str, tools: Mapping[str, AnyTool]) -> UnknownToolError:
    near = difflib.get_close_matches(name, tools, n=3) or sorted(tools)[:5]
    known = f"Do you mean {', '.join(near)}?" if near else "No tools were given: pass tools= (or --app)."
    return UnknownToolError(f"There is no tool {name[:128]!r} here.", next_step=f"{_NOTHING} {known}")


def _check_options(submission: Submission, binding: Binding) -> None:
    submission.check()
    if not is_a(submission.drift, str) or submission.drift not in set(Drift):
        raise wrong(f"drift is none of: {', '.join(Drift)}")
    check_retention(submission.retention, binding)
