"""`@tool`: a Python function with a declared binding, which a job can name and a host can run."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import warnings
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from ..leases.errors import BoundaryError, NotExecuted, ToolDeclarationError
from ..ledger.binding import Binding
from ..ledger.canon import DEFAULT_MAX_ARGS_BYTES
from ..ledger.limits import Limit
from ..ledger.line import Priority
from ..ledger.states import BoundaryMode, Capability, EffectClass, RetryPermission, Spendability
from ..reconcilers.protocol import Adapter
from .arguments import Arguments, Checked, Wired
from .context import RUNNING
from .terms import Isolation, Terms

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class UndeclaredEffectWarning(UserWarning):
    """A tool did not say what kind of effect it has, so it gets the strictest rules of a write."""


class Tool(Generic[P, R]):
    """A declared tool. Calling it calls the plain function, without any job: that is for unit tests.

    Attributes:
        name: what jobs call it.
        fn: the plain function.
        binding: its declared facts.
        terms: how its jobs wait and run.
        non_retryable: errors after which it is not run again.
        reconciler: the adapter that asks its provider, or None.
        is_async: whether the function is a coroutine function.
        signature: the function's signature.
    """

    def __init__(  # noqa: PLR0913 - what a declaration says
        self,
        fn: Callable[..., object],
        name: str,
        binding: Binding,
        reconciler: Adapter | None,
        *,
        terms: Terms | None = None,
        non_retryable: tuple[type[BaseException], ...] = (),
    ) -> None:
        functools.update_wrapper(cast("Any", self), fn)
        self.fn = fn
        self.name = name
        self.binding = binding
        self.terms = terms or Terms()
        self.non_retryable = non_retryable
        self.reconciler = reconciler
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = inspect.signature(fn)
        self._arguments = Arguments(name, fn, key_param=binding.key_param)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}, {self.binding.effect_class}>"

    @property
    def isolation(self) -> Isolation:
        """What a body shares with others."""
        return self.terms.isolation or (Isolation.HOST if self.is_async else Isolation.THREAD)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Name a call of this tool, to be submitted.

        Raises:
            BadArgumentsError: the arguments do not fit the signature.
        """
        return Call(self, self._arguments.bind(args, kwargs))

    def check(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES
    ) -> Checked:
        """Check arguments by the annotations and fill in defaults, for a call that this process runs itself.

        The values may be of any kind that has a canonical form, whether their parameters are annotated or not.

        Raises:
            BadArgumentsError: they do not fit, or one has no canonical form; the message names the parameter and the
                rule, never the value.
            PayloadTooLargeError: they are above the limit.
        """
        return self._arguments.check(self._arguments.bind(args, kwargs), max_bytes=max_bytes)

    def to_wire(self, arguments: Mapping[str, object], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> Wired:
        """Check arguments, fill in defaults, and write them as JSON that a host reads back as the same values.

        Raises:
            BadArgumentsError: as `check`; or a value would come back as something else, such as a Decimal for a
                parameter without annotation.
            PayloadTooLargeError: they are above the limit.
        """
        return self._arguments.to_wire(arguments, max_bytes=max_bytes)

    def from_wire(self, body: bytes, *, idempotency_key: str | None = None) -> dict[str, object]:
        """Read stored arguments back, and fill in the provider's key if the caller left it out.

        Raises:
            BadArgumentsError: the body is not a JSON object, or does not fit the signature.
        """
        values = self._arguments.from_wire(body)
        key = self.binding.key_param
        if key is not None and idempotency_key is not None:
            values.setdefault(key, idempotency_key)
        return values


_WEAKEST_FIRST = tuple(EffectClass)


def _check_caller(name: str, effect_class: EffectClass) -> None:
    """What a call may do by calling others is what its own class allows: by that class it is retried and recovered."""
    running = RUNNING.get()
    if running is None or _WEAKEST_FIRST.index(effect_class) <= _WEAKEST_FIRST.index(running.effect_class):
        return
    what = f"The tool {name!r} ({effect_class}) was called inside a tool that is declared as {running.effect_class}."
    raise BoundaryError(
        what, next_step="Nothing was called. Submit it as a job of its own, or declare the calling tool as strongly."
    )


@contextmanager
def _speaks_of_itself(name: str) -> Generator[None]:
    """Inside a call that a worker runs, what another tool proves of itself is no proof of that call."""
    try:
        yield
    except NotExecuted as error:
        error.of_attempt = error.of_attempt or f"a call of {name}"
        raise


async def _awaited(name: str, body: Coroutine[Any, Any, R]) -> R:
    with _speaks_of_itself(name):
        return await body


class AsyncTool(Tool[P, R]):
    """A tool whose function is `async def`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the plain function: no job, no record.

        Raises:
            BoundaryError: it is called inside a tool of a weaker class, under whose record its effect would be hidden.
        """
        _check_caller(self.name, self.binding.effect_class)
        body = cast("Coroutine[Any, Any, R]", self.fn(*args, **kwargs))
        return body if RUNNING.get() is None else _awaited(self.name, body)


class SyncTool(Tool[P, R]):
    """A tool whose function is a plain `def`; a host runs it in a thread."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function: no job, no record.

        Raises:
            BoundaryError: it is called inside a tool of a weaker class, under whose record its effect would be hidden.
        """
        _check_caller(self.name, self.binding.effect_class)
        if RUNNING.get() is None:
            return cast("R", self.fn(*args, **kwargs))
        with _speaks_of_itself(self.name):
            return cast("R", self.fn(*args, **kwargs))


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call of a tool, not submitted yet.

    Attributes:
        tool: the tool.
        arguments: what the caller gave, by parameter name, unchecked; defaults are not in it.
    """

    tool: Tool[..., R]
    arguments: dict[str, object]

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<call of {self.tool.name!r} with {', '.join(self.arguments) or 'no arguments'}>"


class Facts(TypedDict, total=False):
    """What is declared of a function, wherever it runs.

    Attributes:
        binding: the declared facts, made before; the single ones are then left out.
        effect_class: what kind of effect the tool has; undeclared means the strictest write, and says so once.
        boundary: who writes the mark: `automatic` (default for writes: the runtime, before the body) or `explicit` (the
            tool, by `side_effect()`).
        name: what jobs call it; the function's name if not given.
        timeout_s: seconds that one attempt may take.
        key_param: the parameter that the runtime fills with the provider's idempotency key when the caller left it out.
        key_window_s: for how long the provider honours that key.
        propagate_effect_id_as_provider_key: whether it is filled with the effect id; see `Binding`.
        capability: whether the outcome of an unfinished call can be learnt; may only be tightened, as the next two.
        spendability: how often one intent may have its effect.
        retry_permission: who may let a call run again.
        request_id_from: the parameter that names the request.
        destination: dotted path of the argument that says where the effect goes, as `to.email`.
        policy_version: of the rules that the host runs under; part of the identity.
        agent_id: who calls; part of the identity.
        reconciler: the adapter that asks the provider what became of a call.
        max_attempts: how often a repeatable tool may fail.
        max_deaths: how often a host or session may end under one transition.
        max_timeouts: how often an attempt may be past its time under one transition.
        retry_delay_s: mean delay before a repeatable tool that failed runs again.
    """

    binding: Binding
    effect_class: EffectClass | str
    boundary: BoundaryMode | str
    name: str
    timeout_s: float
    key_param: str | None
    key_window_s: float | None
    propagate_effect_id_as_provider_key: bool
    capability: Capability | str
    spendability: Spendability | str
    retry_permission: RetryPermission | str
    request_id_from: str | None
    destination: str | None
    policy_version: str
    agent_id: str
    reconciler: Adapter | None
    max_attempts: int
    max_deaths: int
    max_timeouts: int
    retry_delay_s: float


class Declaration(Facts, total=False):
    """What `@tool(...)` takes: the facts, and how its jobs wait and run.

    Attributes:
        queue: and the four that follow: see `Terms`.
        non_retryable: errors after which it is not run again, though its class allows it.
    """

    queue: str
    priority: Priority | str
    isolation: Isolation | str | None
    idle_timeout_s: float | None
    limits: Sequence[Limit]
    non_retryable: type[BaseException] | tuple[type[BaseException], ...]


_TERMS = frozenset({"queue", "priority", "isolation", "idle_timeout_s", "limits"})


class _Decorator(Protocol):
    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits is meant
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTool[P, R]: ...


@overload
def tool(fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTool[P, R]: ...  # type: ignore[overload-overlap]  # the first that fits is meant
@overload
def tool(fn: Callable[P, R], /) -> SyncTool[P, R]: ...
@overload
def tool(**declared: Unpack[Declaration]) -> _Decorator: ...
def tool(fn: Callable[..., Any] | None = None, /, **declared: Unpack[Declaration]) -> object:
    """Declare a function as a tool: `@tool`, or `@tool(effect_class="read", …)`; see `Facts` and `Declaration`.

    Raises:
        ToolDeclarationError: the function cannot be a tool, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(declare, declared=declared)
    return declare(fn, declared)


def declare(fn: Callable[..., Any], declared: Declaration) -> Tool[..., Any]:
    """Declare a function as a tool.

    Raises:
        ToolDeclarationError: the function cannot be a tool, or the declared facts contradict each other.
    """
    name = declared.get("name") or str(getattr(fn, "__name__", type(fn).__name__))
    _check_function(name, fn)
    if "effect_class" not in declared and "binding" not in declared:
        said = f"the tool {name!r} declares no effect_class and is treated as non_idempotent_mutate: never run twice"
        warnings.warn(said, UndeclaredEffectWarning, stacklevel=3)
    reconciler = declared.get("reconciler")
    _check_reconciler(name, reconciler)
    binding = _binding(name, declared)
    _check_parameters(name, fn, binding)
    kind = AsyncTool[..., Any] if inspect.iscoroutinefunction(fn) else SyncTool[..., Any]
    return kind(
        fn,
        name,
        binding,
        reconciler,
        terms=_terms(name, fn, declared),
        non_retryable=_non_retryable(name, declared),
    )


def _terms(name: str, fn: Callable[..., Any], declared: Declaration) -> Terms:
    said: dict[str, Any] = {k: v for k, v in declared.items() if k in _TERMS}
    try:
        terms = Terms(**said)
    except ToolDeclarationError as error:
        raise type(error)(f"The tool {name!r}: {error.what}", next_step=error.next_step) from None
    if terms.isolation is Isolation.THREAD and inspect.iscoroutinefunction(fn):
        raise _refused(name, "is a coroutine function, which runs on its host's loop and in no thread of its own")
    parameters = inspect.signature(fn).parameters
    for limit in terms.limits:
        for path in limit.paths:
            if path.partition(".")[0] not in parameters:
                raise _refused(name, f"has the limit {limit.key!r}, which names {path!r}, no parameter of it")
    return terms


def _non_retryable(name: str, declared: Declaration) -> tuple[type[BaseException], ...]:
    said: object = declared.get("non_retryable", ())
    errors = cast("tuple[object, ...]", said) if isinstance(said, tuple) else (said,)
    if not all(isinstance(error, type) and issubclass(error, BaseException) for error in errors):
        raise _refused(name, "has something in non_retryable that is no class of errors")
    return cast("tuple[type[BaseException], ...]", errors)


def _binding(name: str, declared: Declaration) -> Binding:
    facts: dict[str, Any] = {
        k: v
        for k, v in declared.items()
        if k not in _TERMS and k not in {"name", "reconciler", "boundary", "binding", "non_retryable"}
    }
    asked = declared.get("reconciler") is not None
    if "binding" in declared:
        if facts or "boundary" in declared:
            raise _refused(name, f"is declared twice: by binding=, and by {', '.join(facts) or 'boundary'}")
        made = declared["binding"]
        return dataclasses.replace(made, reconcilable=True) if asked and not made.reconcilable else made
    facts["reconcilable"] = asked
    if "boundary" in declared:
        facts["boundary_mode"] = declared["boundary"]
    try:
        return Binding(**facts)
    except ToolDeclarationError as error:
        raise type(error)(f"The tool {name!r}: {error.what}", next_step=error.next_step) from None
    except (ValueError, TypeError) as error:
        raise _refused(name, f"is declared with something that does not exist: {error}") from None


def _check_parameters(name: str, fn: Callable[..., Any], binding: Binding) -> None:
    named = {"request_id_from": binding.request_id_from, "destination": binding.destination}
    parameters = inspect.signature(fn).parameters
    for field, path in named.items():
        if path is not None and path.partition(".")[0] not in parameters:
            raise _refused(name, f"names {field}={path!r}, which is no parameter of it")


def _check_function(name: str, fn: object) -> None:
    if not _NAME.fullmatch(name):
        raise _refused(name, "needs a name of 1 to 128 letters, digits, '_', '.' and '-'; pass name=")
    if inspect.isclass(fn) or not callable(fn):
        raise _refused(name, "is not a function")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise _refused(name, "is a generator; a tool gives one result: return a list")


def _check_reconciler(name: str, reconciler: object) -> None:
    if reconciler is None:
        return
    lag_s = getattr(reconciler, "lag_s", None)
    if not isinstance(lag_s, (int, float)) or not (math.isfinite(lag_s) and lag_s >= 0):
        raise _refused(name, "has a reconciler without lag_s: seconds until an effect is certain to be visible")
    if not any(callable(getattr(reconciler, verb, None)) for verb in ("reconcile", "reconcile_async")):
        raise _refused(name, "has a reconciler without reconcile(lookup) or reconcile_async(lookup)")


def _refused(name: str, fault: str) -> ToolDeclarationError:
    return ToolDeclarationError(f"The tool {name!r} {fault}.", next_step="Correct the declaration of the tool.")
