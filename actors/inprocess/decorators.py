"""`@ledger` and `@ledger_sync`: a function whose every call is looked up, claimed, run once and recorded."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack, cast, overload

from ...leases.errors import ToolDeclarationError
from ...ledger.binding import Binding
from ...ledger.decision import PREDICATES
from ...ledger.states import Drift
from ..naming import NameOptions, Naming
from ..tool import Declaration, Tool, declare
from .action_ledger import ActionLedger
from .calls import run_here, run_here_async
from .prepared import Prepared

P = ParamSpec("P")
R = TypeVar("R")

_SAID_IN_CALL = ("request_id", "dispatch_id", "tool_call_id", "decision_id", "state_ref")


class LedgerOptions(Declaration, total=False):
    """What `@ledger(...)` takes: all of a tool's declaration, and where it is kept.

    Attributes:
        binding: the declared facts, in place of the single ones.
        ledger: the ledger that keeps its record; without it the process's own: see `default_ledger`.
        on_args_drift: what happens when the same dispatch comes with other arguments; without it the ledger's.
        defer_read_only_unknown: a read whose outcome is unknown is refused, not run again.
    """

    binding: Binding
    ledger: ActionLedger
    on_args_drift: Drift | str
    defer_read_only_unknown: bool


_WHERE = frozenset({"ledger", "on_args_drift", "defer_read_only_unknown", "id_from"})
"""What of the options is no fact of the tool."""


@functools.cache
def default_ledger() -> ActionLedger:
    """The ledger of this process: on the server that `MYCELIUM_URL` names, else on the embedded one."""
    return ActionLedger()


class Ledgered:
    """A declared function with the ledger that its calls go through.

    Attributes:
        tool: the declared function.
    """

    def __init__(self, tool: Tool[..., Any], where: Mapping[str, Any]) -> None:
        self.tool = tool
        self._ledger: ActionLedger | None = where.get("ledger")
        drift = where.get("on_args_drift")
        self._drift = None if drift is None else Drift(drift)
        self._defer = where.get("defer_read_only_unknown", False)
        # What a function takes by itself is its own, whatever it is called.
        self._said = tuple(name for name in _SAID_IN_CALL if name not in tool.signature.parameters)

    @property
    def ledger(self) -> ActionLedger:
        """The ledger that keeps the record."""
        return self._ledger or default_ledger()

    def prepare(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Prepared:
        """Check and name one call."""
        said: NameOptions = cast("NameOptions", {name: kwargs.pop(name) for name in self._said if name in kwargs})
        return self.named(args, kwargs, Naming(**said))

    def named(self, args: tuple[object, ...], kwargs: dict[str, Any], naming: Naming) -> Prepared:
        """Check one call whose name was given apart."""
        ledger = self.ledger
        checked = self.tool.check(args, kwargs, max_bytes=ledger.settings.max_args_bytes)
        return ledger.prepared(
            self.tool.name,
            self.tool.binding,
            checked,
            self.tool.reconciler,
            naming,
            decided=len(PREDICATES) == 0,
            drift=self._drift,
            defer_unknown=self._defer,
        )


@overload
def ledger(fn: Callable[P, Awaitable[R]], /) -> Callable[..., Awaitable[R]]: ...
@overload
def ledger(
    **options: Unpack[LedgerOptions],
) -> Callable[[Callable[P, Awaitable[R]]], Callable[..., Awaitable[R]]]: ...
def ledger(fn: Callable[..., Any] | None = None, /, **options: Unpack[LedgerOptions]) -> Any:
    """Run each call of an async function at most once for each intended effect: `@ledger(effect_class=…)`.

    A call may say what names it: `request_id`, `dispatch_id` or `tool_call_id`, and `decision_id` and `state_ref` for
    audit; a function that takes a parameter of such a name keeps it. A repeated call gets what docs/gates.md says.

    Raises:
        ToolDeclarationError: the function is not async, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=True)
    return ledger_of(fn, options, is_async=True)


@overload
def ledger_sync(fn: Callable[P, R], /) -> Callable[..., R]: ...
@overload
def ledger_sync(**options: Unpack[LedgerOptions]) -> Callable[[Callable[P, R]], Callable[..., R]]: ...
def ledger_sync(fn: Callable[..., Any] | None = None, /, **options: Unpack[LedgerOptions]) -> Any:
    """As `ledger`, for a plain function. It may be called from any thread, and inside a running loop, which it blocks.

    Raises:
        ToolDeclarationError: the function is async or a generator, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=False)
    return ledger_of(fn, options, is_async=False)


def ledger_of(
    fn: object, options: Mapping[str, Any], *, is_async: bool, kind: type[Ledgered] = Ledgered
) -> Callable[..., Any]:
    """Wrap one function, or a declared tool.

    Raises:
        ToolDeclarationError: it is of the other colour, or the declared facts contradict each other.
    """
    facts = {name: value for name, value in options.items() if name not in _WHERE}
    tool = (
        cast("Tool[..., Any]", fn)
        if isinstance(fn, Tool)
        else declare(cast("Callable[..., Any]", fn), cast("Declaration", facts))
    )
    if tool.is_async is not is_async:
        what = f"The function {tool.name!r} is {'async' if tool.is_async else 'not async'}."
        raise ToolDeclarationError(what, next_step=f"Use the decorator {'without' if tool.is_async else 'with'} _sync.")
    return _wrap(kind(tool, {name: options[name] for name in _WHERE if name in options}))


def _wrap(ledgered: Ledgered) -> Callable[..., Any]:
    body = cast("Callable[..., Any]", ledgered.tool.fn)

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own are checked at the call
        call, kept = ledgered.prepare(args, kwargs), ledgered.ledger
        return run_here(kept.engine, call, lambda values: body(**values), max_bytes=kept.settings.max_result_bytes)

    async def called_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - (the same)
        call, kept = ledgered.prepare(args, kwargs), ledgered.ledger
        engine = await kept.engine_async()
        return await run_here_async(
            engine, call, lambda values: body(**values), max_bytes=kept.settings.max_result_bytes
        )

    wrapped = functools.wraps(body)(called_async if ledgered.tool.is_async else called)
    # The signature that callers see is the function's own: what names a call is said besides.
    wrapped.__signature__ = ledgered.tool.signature  # type: ignore[attr-defined]
    wrapped.ledgered = ledgered  # type: ignore[attr-defined]
    return wrapped
