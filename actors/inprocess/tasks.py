"""`@task_ledger` and `@task_ledger_sync`: tasks that a framework may start again, on the same machine as calls."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from ...leases.errors import MissingRequestIdentityError, ToolDeclarationError
from ...ledger.canon import canonical
from ...ledger.identity import MAX_REQUEST_ID_BYTES
from ..arguments import Checked
from ..naming import Naming
from ..tool import Tool
from .decorators import Ledgered, LedgerOptions, ledger_of
from .prepared import Prepared

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(LedgerOptions, total=False):
    """What `@task_ledger(...)` takes: all of `@ledger`, and what names the task.

    Attributes:
        id_from: the parameters whose values name the task; without them each call says `task_id=`.
    """

    id_from: Sequence[str]


class _Task(Ledgered):
    """A task: it is named by its id alone, whatever its other arguments are."""

    def __init__(self, tool: Tool[..., Any], where: Mapping[str, Any]) -> None:
        super().__init__(tool, where)
        self._id_from: tuple[str, ...] = tuple(where.get("id_from", ()))
        for name in self._id_from:
            if name not in tool.signature.parameters:
                what = f"The task {tool.name!r} names id_from={name!r}, which is no parameter of it."
                raise ToolDeclarationError(what, next_step="Correct the declaration.")

    def prepare(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Prepared:
        """Check one call, and name it by its task id."""
        task_id = kwargs.pop("task_id", None) if "task_id" not in self.tool.signature.parameters else None
        checked = self.tool.check(args, kwargs, max_bytes=self.ledger.settings.max_args_bytes)
        name = self._named(task_id, checked)
        return self.ledger.prepared(
            self.tool.name,
            self.tool.binding,
            # A correction is a new task id: the same id is the same task, also with other arguments.
            Checked(checked.values, b"{}"),
            self.tool.reconciler,
            Naming(request_id=name),
            decided=True,
        )

    def _named(self, task_id: object, checked: Checked) -> str:
        if task_id is not None:
            return f"task:{self.tool.name}:{_text(self.tool.name, task_id)}"
        if not self._id_from:
            what = f"The call of the task {self.tool.name!r} has no task_id."
            raise MissingRequestIdentityError(what, next_step="Nothing was started. Pass task_id=, or declare id_from.")
        # As a JSON array no choice of values can look like another.
        values = canonical([checked.values[name] for name in self._id_from]).decode()
        return _short(f"task:{self.tool.name}:{','.join(self._id_from)}:{values}")


def _text(name: str, task_id: object) -> str:
    if not isinstance(task_id, str) or not task_id.strip():
        what = f"The task_id of {name!r} is blank or not text."
        raise MissingRequestIdentityError(what, next_step="Nothing was started. Pass the stable id of the task.")
    return task_id


def _short(name: str) -> str:
    if len(name.encode()) <= MAX_REQUEST_ID_BYTES and name.isprintable():
        return name
    return f"task:{hashlib.sha256(name.encode()).hexdigest()}"


@overload
def task_ledger(fn: Callable[P, Awaitable[R]], /) -> Callable[..., Awaitable[R]]: ...
@overload
def task_ledger(
    **options: Unpack[TaskOptions],
) -> Callable[[Callable[P, Awaitable[R]]], Callable[..., Awaitable[R]]]: ...
def task_ledger(fn: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
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
def task_ledger_sync(fn: Callable[P, R], /) -> Callable[..., R]: ...
@overload
def task_ledger_sync(**options: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Callable[..., R]]: ...
def task_ledger_sync(fn: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
    """As `task_ledger`, for a plain function.

    Raises:
        ToolDeclarationError: the function is async or a generator, or the declared facts contradict each other.
    """
    if fn is None:
        return functools.partial(ledger_of, options=options, is_async=False, kind=_Task)
    return ledger_of(fn, options, is_async=False, kind=_Task)
