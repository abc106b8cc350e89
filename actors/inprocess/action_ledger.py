"""A ledger in a program's hands: claim, decide, complete, fail, wait; in plain and in async code."""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import RLock, Thread
from types import TracebackType
from typing import Any, Self, Unpack, cast
from weakref import WeakSet

import pydantic

from ...leases.errors import MissingRequestIdentityError, ToolDeclarationError
from ...leases.keys import Keyspace
from ...ledger.authorize import OperatorAuthorizer
from ...ledger.binding import Binding
from ...ledger.canon import encode
from ...ledger.decision import Decision
from ...ledger.record import Record, read_record
from ...ledger.states import BoundaryMode, Drift, EffectClass
from ...ledger.submit import Intent
from ...reconcilers.protocol import Adapter
from ..arguments import Checked
from ..naming import NameOptions, Naming, check_retention, key_of
from .desk import Desk
from .engine import Engine
from .entry import LedgerEntry, entry_of
from .prepared import Prepared
from .settings import LedgerSettings
from .settling import completed, told

_LEDGERS: WeakSet[ActionLedger] = WeakSet()


class ActionLedger:
    """One ledger, for many threads and loops. Its thread starts, and connects, with the first call that needs it.

    A process that was forked gets a thread and a session of its own with its first call.

    Args:
        url: the server, as for `connect`; None: the environment's `MYCELIUM_URL`, else the embedded server.
        namespace: the namespace of every key; None: the environment's `MYCELIUM_NAMESPACE`, else `mycelium`.
        settings: see `LedgerSettings`.
        reconciler: the adapter that is asked about every call of this ledger whose tool names none.
        operator_authorizer: asked about every release and declaration of death before the store is; None: nobody is.

    Attributes:
        settings: as given.
        reconciler: as given.
        desk: the operator's verbs, in plain code.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        settings: LedgerSettings | None = None,
        reconciler: Adapter | None = None,
        operator_authorizer: OperatorAuthorizer | None = None,
    ) -> None:
        self.settings = settings or LedgerSettings()
        self.reconciler = reconciler
        self._url = url
        self._namespace = Keyspace(namespace or os.environ.get("MYCELIUM_NAMESPACE") or "mycelium").namespace
        self._lock = RLock()
        self._engine: Engine | None = None
        self._inherited: list[Engine] = []
        session = self.settings.session
        self.desk = Desk(lambda: self.engine, operator_authorizer, session.ttl_s + session.grace_s)
        _LEDGERS.add(self)

    @property
    def namespace(self) -> str:
        """The namespace of every key."""
        return self._namespace

    @property
    def engine(self) -> Engine:
        """The thread of this process, started if need be.

        Raises:
            ServerError: the server could not be reached, or may not hold a ledger.
        """
        with self._lock:
            if self._engine is None:
                url = self._url or os.environ.get("MYCELIUM_URL") or None
                name = f"{socket.gethostname()}:{os.getpid()}"
                self._engine = Engine.start(url, namespace=self._namespace, settings=self.settings, name=name)
                atexit.register(self.close)
            return self._engine

    async def engine_async(self) -> Engine:
        """As `engine`, for a loop that must not stand still while the first call connects."""
        if (engine := self._engine) is not None:
            return engine
        started: Future[Engine] = Future()

        def start() -> None:
            if not started.set_running_or_notify_cancel():
                return
            try:
                started.set_result(self.engine)
            except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
                started.set_exception(error)

        # Not in the loop's own threads: all of them may be waiting for calls of ours.
        Thread(target=start, name="mycelium-start", daemon=True).start()
        return await asyncio.wrap_future(started)

    def leave_to_parent(self) -> None:
        """In a fork: what the parent has is not touched, and never dropped, as its sockets are shared."""
        self._lock = RLock()
        if self._engine is not None:
            self._inherited.append(self._engine)
            self._engine = None
            atexit.unregister(self.close)

    # ── a body that the caller runs itself ───────────────────────────────────────────────────────────────────────────

    def prepare(
        self,
        tool: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        binding: Binding,
        **named: Unpack[NameOptions],
    ) -> Prepared:
        """Check and name one call of something that is no declared function.

        Args:
            tool: its name.
            args: positional arguments: they are part of what the call is, as they stand.
            kwargs: arguments by name; the provider's key may be among them, and takes no part in what the call is.
            binding: the declared facts.
            **named: see `Naming`.

        Raises:
            BadCallError: something about it is wrong; nothing was asked.
        """
        if not isinstance(cast("object", binding), Binding):
            what = f"The call of {tool!r} comes with a {type(binding).__name__} where its declared facts are due."
            raise ToolDeclarationError(what, next_step="Nothing was asked. Pass Binding(effect_class=…).")
        values: dict[str, object] = dict(kwargs)
        rest = {name: value for name, value in values.items() if name != binding.key_param}
        encoded = encode({"args": args, "kwargs": rest}, max_bytes=self.settings.max_args_bytes)
        checked = Checked(values, encoded.text, encoded.text if encoded.is_json else b"")
        if binding.boundary_mode is BoundaryMode.EXPLICIT:
            # Nothing that a host runs by itself can mark: the decision is the point of no return.
            binding = replace(binding, boundary_mode=BoundaryMode.AUTOMATIC)
        return self.prepared(tool, binding, checked, self.reconciler, Naming(**named), by_hand=True)

    def prepared(  # noqa: PLR0913 - all of it is what a call is
        self,
        tool: str,
        binding: Binding,
        checked: Checked,
        reconciler: Adapter | None,
        naming: Naming,
        *,
        by_hand: bool = False,
        drift: Drift | None = None,
        defer_unknown: bool = False,
        returns: pydantic.TypeAdapter[Any] | None = None,
    ) -> Prepared:
        """Name one checked call.

        Raises:
            BadCallError: nothing names it, or a name is none; nothing was asked.
        """
        naming.check()
        naming = self._named(tool, binding, naming)
        check_retention(self.settings.retention, binding)
        identity = naming.identity(tool, binding, checked, namespace=self._namespace)
        intent = Intent(
            identity=replace(identity, args=checked.body),
            tool=tool,
            binding=binding,
            about=naming.about(binding),
            drift=drift or self.settings.on_args_drift,
            asked=(reconciler or self.reconciler) is not None or binding.resends,
            key=key_of(binding, checked.values),
            retention=self.settings.retention,
        )
        return Prepared(
            intent=intent,
            values=checked.values,
            reconciler=reconciler or self.reconciler,
            defer_unknown=defer_unknown,
            by_hand=by_hand,
            poll_timeout_s=self.settings.poll_timeout_s,
            returns=returns,
        )

    def derive_request_id(
        self,
        tool: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        binding: Binding,
        **named: Unpack[NameOptions],
    ) -> str:
        """The request id that a claim of this call would have; nothing is asked of the server. As `prepare`."""
        return self.prepare(tool, args, kwargs, binding, **named).intent.identity.request_id

    def claim(
        self,
        tool: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        binding: Binding,
        **named: Unpack[NameOptions],
    ) -> LedgerEntry:
        """Ask whether one call may run. Arguments as `prepare`.

        Returns:
            The claimed call, to be decided, run and settled by the caller; or the completed one, with its result.

        Raises:
            LedgerHardBlockError: it is on record, and may not run again.
            LedgerPollTimeoutError: another holder had it for longer than the call waits.
            BadCallError: something about it is wrong.
            SessionLostError: this process may not dispatch now.
            ServerError: the store could not be asked. Nothing was dispatched.
        """
        return entry_of(self.engine.begin(self.prepare(tool, args, kwargs, binding, **named)))

    async def claim_async(
        self,
        tool: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        binding: Binding,
        **named: Unpack[NameOptions],
    ) -> LedgerEntry:
        """As `claim`."""
        call = self.prepare(tool, args, kwargs, binding, **named)
        return entry_of(await (await self.engine_async()).begin_async(call))

    def record_decision(self, entry: LedgerEntry, decision: Mapping[str, object] | Decision) -> None:
        """Record whether a claimed call may be attempted; only after this its body may begin.

        Args:
            entry: the claim.
            decision: `allowed`, `verdicts` and `denied_reasons`, which must agree. A denial is the end of the attempt.

        Raises:
            LedgerError: the decision contradicts itself, or nothing is claimed.
            LedgerOutcomeAlreadySetError: the attempt is not the current one any more, or has a decision.
            ServerError: the store could not be asked; nothing may be dispatched.
        """
        engine, held, made = self.engine, entry.held, _decision(decision)
        engine.run(lambda: engine.service.decide(held, made))

    async def record_decision_async(self, entry: LedgerEntry, decision: Mapping[str, object] | Decision) -> None:
        """As `record_decision`."""
        engine, held, made = await self.engine_async(), entry.held, _decision(decision)
        await engine.await_(lambda: engine.service.decide(held, made))

    def complete(self, entry: LedgerEntry, result: object = None) -> None:
        """Record that the effect was seen.

        Raises:
            LedgerOutcomeAlreadySetError: no decision was recorded, the attempt is not the current one any more, or it
                has its outcome. Nothing was changed.
            ServerError: the store could not be asked; it is told again until the store has answered.
        """
        settlement = completed(entry.held, result, max_bytes=self.settings.max_result_bytes)
        self.engine.settle_or_refuse(entry.held, settlement)

    async def complete_async(self, entry: LedgerEntry, result: object = None) -> None:
        """As `complete`."""
        settlement = completed(entry.held, result, max_bytes=self.settings.max_result_bytes)
        await (await self.engine_async()).settle_or_refuse_async(entry.held, settlement)

    def fail(self, entry: LedgerEntry, error: BaseException, *, failed_after_effect: bool) -> None:
        """Record that the body failed.

        Args:
            entry: the claim.
            error: what it failed with.
            failed_after_effect: True if the effect may have happened; False only where it is proved that it did not and
                cannot any more.

        Raises:
            LedgerOutcomeAlreadySetError: as `complete`.
            ServerError: as `complete`.
        """
        settlement = told(entry.held, error, after_effect=failed_after_effect)
        self.engine.settle_or_refuse(entry.held, settlement)

    async def fail_async(self, entry: LedgerEntry, error: BaseException, *, failed_after_effect: bool) -> None:
        """As `fail`."""
        settlement = told(entry.held, error, after_effect=failed_after_effect)
        await (await self.engine_async()).settle_or_refuse_async(entry.held, settlement)

    # ── looking and waiting ──────────────────────────────────────────────────────────────────────────────────────────

    def record(self, request_id: str) -> Record:
        """Read one transition.

        Raises:
            JobNotFoundError: nothing is on record under this id.
            ServerError: the server could not be asked.
        """
        engine = self.engine
        return engine.run(lambda: read_record(engine.service.store, request_id))

    def wait_for_transition(self, request_id: str, timeout_s: float | None = None) -> Record:
        """Wait until a transition of somebody else is in flight no more; claims nothing, and writes nothing to it.

        Args:
            request_id: the transition.
            timeout_s: seconds; None: the ledger's `poll_timeout_s`.

        Raises:
            JobNotFoundError: nothing is on record under this id.
            LedgerPollTimeoutError: the wait is over before it is.
            ServerError: the server could not be asked.
        """
        engine, (wait_s, pause_s) = self.engine, self._patience(timeout_s)
        return engine.run(lambda: engine.service.wait(request_id, wait_s, pause_s))

    async def wait_for_transition_async(self, request_id: str, timeout_s: float | None = None) -> Record:
        """As `wait_for_transition`."""
        engine, (wait_s, pause_s) = await self.engine_async(), self._patience(timeout_s)
        return await engine.await_(lambda: engine.service.wait(request_id, wait_s, pause_s))

    def close(self) -> None:
        """End the session and the thread; may be called again. Who waits is answered; what runs is left to run out."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            atexit.unregister(self.close)
            engine.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _named(self, tool: str, binding: Binding, naming: Naming) -> Naming:
        read = binding.effect_class is EffectClass.READ
        named = naming.request_id is not None or binding.request_id_from is not None
        if self.settings.require_request_id and not (read or named):
            what = f"The call of {tool!r} has no request id, and this ledger asks for one."
            next_step = "Nothing was dispatched. Pass request_id=, or declare request_id_from."
            raise MissingRequestIdentityError(what, next_step=next_step)
        # In process the framework's id of the call names the dispatch where nothing better does: with its scope and its
        # arguments it is one, and other arguments under it are noticed. Under a request id it is a hint: models reuse
        # ids.
        if naming.dispatch_id is not None or named:
            return naming
        return replace(naming, dispatch_id=naming.tool_call_id)

    def _patience(self, timeout_s: float | None) -> tuple[float | None, float]:
        return self.settings.poll_timeout_s if timeout_s is None else timeout_s, self.settings.poll_s


def _decision(told_of: Mapping[str, object] | Decision) -> Decision:
    return told_of if isinstance(told_of, Decision) else Decision.read(told_of)


def _after_fork() -> None:
    for one in list(_LEDGERS):
        one.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
