"""`@task_ledger` and `@task_ledger_sync`: tasks that a framework may start again, on the same machine as calls."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from ...leases.errors import BadCallError, MissingRequestIdentityError, ToolDeclarationError
from ...ledger.canon import canonical
from ...ledger.identity import MAX_REQUEST_ID_BYTES
from ..arguments import Checked
from ..naming import Naming
from ..tool import Facts, Tool
from .decorators import Ledgered, LedgerOptions, documented, ledger_of
from .prepared import Prepared

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_TASK_ID = "task_id"


class TaskOptions(LedgerOptions, total=False):
    """What `@task_ledger(...)` takes: all of `@ledger`, and what names the task.

    Attributes:
        id_from: the parameters whose values name the task; without them each call says `task_id=`.
    """

    id_from: Sequence[str]


class _Task(Ledgered):
    """A task: it is named by its id alone, whatever its other arguments are."""

    WHERE = Ledgered.WHERE | {"id_from"}

    def __init__(self, tool: Tool[..., Any], where: Mapping[str, Any]) -> None:
        super().__init__(tool, where)
        self._id_from = _parameters(tool, where.get("id_from", ()))

    def prepare(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Prepared:
        """Check one call, and name it by its task id."""
        # What a function takes by itself is its own, whatever it is called.
        task_id = kwargs.pop(_TASK_ID, None) if _TASK_ID not in self.tool.signature.parameters else None
        return self._prepared(self.check(args, kwargs), task_id)

    def apart(self, said: Mapping[str, Any]) -> Callable[[tuple[object, ...], dict[str, Any]], Prepared]:
        """What prepares calls whose task id was given before them.

        Raises:
            MissingRequestIdentityError: it is blank or not text, or there is none.
        """
        task_id = _text(self.tool.name, said.get(_TASK_ID))
        if set(said) != {_TASK_ID}:
            what = f"The task {self.tool.name!r} is named by its task_id alone."
            raise BadCallError(what, next_step="Nothing was started. Name it by .named(task_id=…).")
        return lambda args, kwargs: self._prepared(self.check(args, kwargs), task_id)

    def _prepared(self, checked: Checked, task_id: object) -> Prepared:
        # A correction is a new task id: the same id is the same task, also with other arguments.
        named = Checked(checked.values, b"{}", checked.body)
        return self.named(named, Naming(request_id=self._name(task_id, checked)))

    def _name(self, task_id: object, checked: Checked) -> str:
        if task_id is not None:
            return f"task:{self.tool.name}:{_text(self.tool.name, task_id)}"
        if not self._id_from:
            what = f"The call of the task {self.tool.name!r} has no task_id."
            raise MissingRequestIdentityError(what, next_step="Nothing was started. Pass task_id=, or declare id_from.")
        # As a JSON array no choice of values can look like another.
        values = canonical([checked.values[name] for name in self._id_from]).decode()
        return _short(f"task:{self.tool.name}:{','.join(self._id_from)}:{values}")


class RecordedTask(Protocol[P, R_co]):
    """A task of the caller's whose calls are recorded: what `@task_ledger` and `@task_ledger_sync` make of a function.

    Type checkers see the parameters of a call that `id_from` names, and of one that is named apart:
    `settle.named(task_id="INV-1")(1200)`.
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
    def __call__(self, *args: Any, task_id: str, **kwargs: Any) -> R_co: ...  # noqa: ANN401 - as in Recorded

    def named(self, *, task_id: str) -> Callable[P, R_co]:
        """Name a task apart from its arguments.

        Returns:
            The function, for the task of this id.

        Raises:
            MissingRequestIdentityError: the id is blank or not text.
        """
        ...


def _parameters(tool: Tool[..., Any], id_from: object) -> tuple[str, ...]:
    if isinstance(id_from, str):
        what = f"The task {tool.name!r} declares id_from={id_from!r}, which is text and not a list of parameters."
        raise ToolDeclarationError(what, next_step=f"Write id_from=[{id_from!r}].")
    names = tuple(cast("Sequence[str]", id_from))
    for name in names:
        if name not in tool.signature.parameters:
            what = f"The task {tool.name!r} names id_from={name!r}, which is no parameter of it."
            raise ToolDeclarationError(what, next_step="Correct the declaration.")
    return names


def _text(name: str, task_id: object) -> str:
    if not isinstance(task_id, str) or not task_id.strip():
        what = f"The task_id of {name!r} is blank or not text."
        raise MissingRequestIdentityError(what, next_step="Nothing was started. Pass the stable id of the task.")
    return task_id


def _short(name: str) -> str:
    if len(name.encode()) <= MAX_REQUEST_ID_BYTES and name.isprintable():
        return name
    return f"task:{hashlib.sha256(name.encode()).hexdigest()}"


class _TaskLedger(Protocol):
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> RecordedTask[P, Coroutine[Any, Any, R]]: ...


class _TaskLedgerSync(Protocol):
    def __call__(self, fn: Callable[P, R], /) -> RecordedTask[P, R]: ...


@overload
def task_ledger(fn: Callable[P, Coroutine[Any, Any, R]], /) -> RecordedTask[P, Coroutine[Any, Any, R]]: ...
@overload
def task_ledger(**options: Unpack[TaskOptions]) -> _TaskLedger: ...
@documented(TaskOptions, LedgerOptions, Facts)
def task_ledger(fn: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> object:
    """Run an async task at most once for each task id; a task that is started again gets the first one's result.

    The task id is given with the call (`task_id=`), or taken from the parameters that `id_from` names. A task is what
    `@ledger` makes of a call: leased, fenced, and unknown where nobody saw its end.

    Raises:
        ToolDeclarationError: the function is not async, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=True, kind=_Task)
    return ledger_of(fn, options, is_async=True, kind=_Task)


@overload
def task_ledger_sync(fn: Callable[P, R], /) -> RecordedTask[P, R]: ...
@overload
def task_ledger_sync(**options: Unpack[TaskOptions]) -> _TaskLedgerSync: ...
@documented(TaskOptions, LedgerOptions, Facts)
def task_ledger_sync(fn: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> object:
    """As `task_ledger`, for a plain function.

    Raises:
        ToolDeclarationError: the function is async or a generator, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=False, kind=_Task)
    return ledger_of(fn, options, is_async=False, kind=_Task)
