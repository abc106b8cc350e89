"""`@ledger` and `@ledger_sync`: a function whose every call is looked up, claimed, run once and recorded."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from ...leases.errors import ToolDeclarationError
from ...ledger.states import Drift
from ..arguments import Checked
from ..naming import NameOptions, Naming
from ..tool import Declaration, Facts, Tool, declare
from .action_ledger import ActionLedger
from .calls import run_here, run_here_async
from .prepared import Prepared
from .returns import reader_of

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_F = TypeVar("_F", bound=Callable[..., Any])
_Prepare = Callable[[tuple[object, ...], dict[str, Any]], Prepared]

_SAID_IN_CALL = ("request_id", "dispatch_id", "tool_call_id", "decision_id", "state_ref")


class LedgerOptions(Facts, total=False):
    """What `@ledger(...)` takes: the facts of a tool, and where its record is kept.

    Attributes:
        ledger: the ledger that keeps its record; without it the process's own: see `default_ledger`.
        on_args_drift: what happens when the same dispatch comes with other arguments; without it the ledger's.
        defer_read_only_unknown: a read whose outcome is unknown is refused, not run again.
    """

    ledger: ActionLedger
    on_args_drift: Drift | str
    defer_read_only_unknown: bool


@functools.cache
def default_ledger() -> ActionLedger:
    """The ledger of this process: on the server that `MYCELIUM_URL` names, else on the embedded one."""
    return ActionLedger()


class Ledgered:
    """A declared function with the ledger that its calls go through.

    Attributes:
        tool: the declared function.
    """

    WHERE = frozenset({"ledger", "on_args_drift", "defer_read_only_unknown"})
    """What of the options is no fact of the tool."""

    def __init__(self, tool: Tool[..., Any], where: Mapping[str, Any]) -> None:
        self.tool = tool
        self._ledger: ActionLedger | None = where.get("ledger")
        drift = where.get("on_args_drift")
        self._drift = None if drift is None else Drift(drift)
        self._defer = where.get("defer_read_only_unknown", False)
        self._returns = reader_of(tool.fn)
        # What a function takes by itself is its own, whatever it is called.
        self._said = tuple(name for name in _SAID_IN_CALL if name not in tool.signature.parameters)

    @property
    def ledger(self) -> ActionLedger:
        """The ledger that keeps the record."""
        return self._ledger or default_ledger()

    def prepare(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Prepared:
        """Check and name one call."""
        said: NameOptions = cast("NameOptions", {name: kwargs.pop(name) for name in self._said if name in kwargs})
        return self.named(self.check(args, kwargs), Naming(**said))

    def apart(self, said: Mapping[str, Any]) -> _Prepare:
        """What prepares calls whose name was given before them.

        Raises:
            BadCallError: it is no name.
        """
        naming = Naming(**said)
        naming.check()
        return lambda args, kwargs: self.named(self.check(args, kwargs), naming)

    def check(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Checked:
        """Check the arguments of one call."""
        return self.tool.check(args, kwargs, max_bytes=self.ledger.settings.max_args_bytes)

    def named(self, checked: Checked, naming: Naming) -> Prepared:
        """Put a checked call and its name together."""
        return self.ledger.prepared(
            self.tool.name,
            self.tool.binding,
            checked,
            self.tool.reconciler,
            naming,
            drift=self._drift,
            defer_unknown=self._defer,
            returns=self._returns,
        )


class Recorded(Protocol[P, R_co]):
    """A function of the caller's whose calls are recorded: what `@ledger` and `@ledger_sync` make of it.

    It is called as before, with what names the call besides. Type checkers see the parameters of a call that the scope
    around it names, and of one that is named apart: `charge.named(request_id="charge-order:ORD-1")("ORD-1", 1200)`.
    """

    @property
    def ledgered(self) -> Ledgered:
        """The declared function and its ledger."""
        ...

    @property
    def __name__(self) -> str: ...
    @property
    def __wrapped__(self) -> Callable[P, R_co]: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, request_id: str, **kwargs: Any) -> R_co: ...  # noqa: ANN401 - no type adds a keyword
    @overload
    def __call__(self, *args: Any, dispatch_id: str, **kwargs: Any) -> R_co: ...  # noqa: ANN401 - (the same)
    @overload
    def __call__(self, *args: Any, tool_call_id: str, **kwargs: Any) -> R_co: ...  # noqa: ANN401 - (the same)

    def named(self, **name: Unpack[NameOptions]) -> Callable[P, R_co]:
        """Name a call apart from its arguments; the name may be all that `Naming` has.

        Returns:
            The function, for a call of this name.

        Raises:
            BadCallError: a part of it is blank, too long or of another type.
        """
        ...


def documented(*options: type) -> Callable[[_F], _F]:
    """Put what the options mean under the docstring of what takes them, so that `help()` tells it."""

    def add(function: _F) -> _F:
        told = [inspect.getdoc(option) or "" for option in options]
        lines = "\n".join(text.partition("Attributes:\n")[2] for text in told)
        function.__doc__ = f"{inspect.getdoc(function) or ''}\n\nOptions:\n{lines}"
        return function

    return add


class _Ledger(Protocol):
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> Recorded[P, Coroutine[Any, Any, R]]: ...


class _LedgerSync(Protocol):
    def __call__(self, fn: Callable[P, R], /) -> Recorded[P, R]: ...


@overload
def ledger(fn: Callable[P, Coroutine[Any, Any, R]], /) -> Recorded[P, Coroutine[Any, Any, R]]: ...
@overload
def ledger(**options: Unpack[LedgerOptions]) -> _Ledger: ...
@documented(LedgerOptions, Facts)
def ledger(fn: Callable[..., Any] | None = None, /, **options: Unpack[LedgerOptions]) -> object:
    """Run each call of an async function at most once for each intended effect: `@ledger(effect_class=…)`.

    A call may say what names it: `request_id`, `dispatch_id` or `tool_call_id`, and `decision_id` and `state_ref` for
    audit; a function that takes a parameter of such a name keeps it, and is named by `.named(request_id=…)(…)`. A
    repeated call gets what docs/gates.md says; docs/in-process.md shows how it is used.

    Raises:
        ToolDeclarationError: the function is not async, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=True)
    return ledger_of(fn, options, is_async=True)


@overload
def ledger_sync(fn: Callable[P, R], /) -> Recorded[P, R]: ...
@overload
def ledger_sync(**options: Unpack[LedgerOptions]) -> _LedgerSync: ...
@documented(LedgerOptions, Facts)
def ledger_sync(fn: Callable[..., Any] | None = None, /, **options: Unpack[LedgerOptions]) -> object:
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
    facts = {name: value for name, value in options.items() if name not in kind.WHERE}
    if isinstance(fn, Tool) and facts:
        what = f"The tool {cast('Tool[..., Any]', fn).name!r} is declared already, and comes with {', '.join(facts)}."
        raise ToolDeclarationError(what, next_step="Say all of it where the tool is declared.")
    for name in Declaration.__optional_keys__ - Facts.__optional_keys__:
        if name in facts:
            what = f"{name} says how jobs wait and run, and a function that is called in process has none."
            raise ToolDeclarationError(what, next_step="Leave it out, or submit the call as a job of a tool.")
    tool = (
        cast("Tool[..., Any]", fn)
        if isinstance(fn, Tool)
        else declare(cast("Callable[..., Any]", fn), cast("Declaration", facts))
    )
    if tool.is_async is not is_async:
        what = f"The function {tool.name!r} is {'async' if tool.is_async else 'not async'}."
        raise ToolDeclarationError(what, next_step=f"Use the decorator {'without' if tool.is_async else 'with'} _sync.")
    ledgered = kind(tool, {name: options[name] for name in kind.WHERE if name in options})

    def named(**name: object) -> Callable[..., Any]:
        return _wrap(ledgered, ledgered.apart(name))

    wrapped: Any = _wrap(ledgered, ledgered.prepare)
    wrapped.ledgered, wrapped.named = ledgered, named
    return cast("Callable[..., Any]", wrapped)


def _wrap(ledgered: Ledgered, prepare: _Prepare) -> Callable[..., Any]:
    body = cast("Callable[..., Any]", ledgered.tool.fn)

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the function's own are checked at the call
        call, kept = prepare(args, kwargs), ledgered.ledger
        return run_here(kept.engine, call, lambda values: body(**values), max_bytes=kept.settings.max_result_bytes)

    async def called_async(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - (the same)
        call, kept = prepare(args, kwargs), ledgered.ledger
        engine = await kept.engine_async()
        return await run_here_async(
            engine, call, lambda values: body(**values), max_bytes=kept.settings.max_result_bytes
        )

    wrapped = functools.wraps(body)(called_async if ledgered.tool.is_async else called)
    # The signature that callers see is the function's own: what names a call is said besides.
    wrapped.__signature__ = ledgered.tool.signature  # type: ignore[attr-defined]
    return wrapped
