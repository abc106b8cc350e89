"""What an operator may do from plain code: look at what is stuck, release it, and declare a holder dead."""

from __future__ import annotations

from collections.abc import Callable

from ...ledger.authorize import OperatorAuthorizer
from ...ledger.listing import Listed, list_transitions, look_at
from ...ledger.mark_dead import mark_dead
from ...ledger.record import Record
from ...ledger.release import NOT_GIVEN, Verified, release
from ...ledger.states import State
from .engine import Engine


class Desk:
    """The operator's verbs of one ledger, in plain code; the functions of the same names are for async code.

    Args:
        engine: the ledger's thread, started if need be.
        authorizer: asked before the store is; None: nobody is asked.
        presumed_dead_s: so long after it was lost, an attempt is taken for unable to send.
    """

    def __init__(
        self, engine: Callable[[], Engine], authorizer: OperatorAuthorizer | None, presumed_dead_s: float
    ) -> None:
        self._engine = engine
        self._authorizer = authorizer
        self._presumed_dead_s = presumed_dead_s

    def list_transitions(  # noqa: PLR0913 - the filters of a listing
        self,
        *,
        state: State | None = None,
        tool: str | None = None,
        stuck: bool = False,
        parent: str | None = None,
        older_than_s: float | None = None,
        limit: int = 50,
    ) -> list[Listed]:
        """List transitions, with what to do about each; see the function."""
        engine = self._engine()
        return engine.run(
            lambda: list_transitions(
                engine.service.store,
                state=state,
                tool=tool,
                stuck=stuck,
                parent=parent,
                older_than_s=older_than_s,
                limit=limit,
            )
        )

    def look_at(self, request_id: str) -> Listed:
        """Look at one transition; see the function."""
        engine = self._engine()
        return engine.run(lambda: look_at(engine.service.store, request_id))

    def release(  # noqa: PLR0913 - a verification is told whole
        self,
        request_id: str,
        *,
        verified: Verified | str,
        by: str,
        reason: str,
        result: object = NOT_GIVEN,
        override: bool = False,
        expect: str | None = None,
        credential: str | None = None,
    ) -> Record:
        """Record, once, what a person verified of an unknown transition; see the function."""
        engine = self._engine()
        return engine.run(
            lambda: release(
                engine.service.store,
                request_id,
                verified=verified,
                by=by,
                reason=reason,
                result=result,
                override=override,
                presumed_dead_s=self._presumed_dead_s,
                expect=expect,
                credential=credential,
                authorizer=self._authorizer,
            )
        )

    def mark_dead(
        self, request_id: str, *, by: str, reason: str, override: bool = False, credential: str | None = None
    ) -> Record:
        """Take a person's word that a holder is dead; see the function."""
        engine = self._engine()
        return engine.run(
            lambda: mark_dead(
                engine.service.store,
                request_id,
                by=by,
                reason=reason,
                override=override,
                presumed_dead_s=self._presumed_dead_s,
                credential=credential,
                authorizer=self._authorizer,
            )
        )
