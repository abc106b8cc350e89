"""The one tree of errors: every refusal says what happened, how the transition stands, and what to do next."""

from __future__ import annotations


class MyceliumError(Exception):
    """Root of every error that this package raises.

    Attributes:
        what: one sentence: what happened.
        state: how the transition stands now (a state word), or None where no transition is concerned.
        next_step: one sentence: what to do next.
    """

    def __init__(self, what: str, *, next_step: str, state: str | None = None) -> None:
        self.what = what
        self.state = state
        self.next_step = next_step
        super().__init__(what, next_step, state)

    def __str__(self) -> str:
        standing = f" State: {self.state}." if self.state else ""
        return f"{self.what}{standing} {self.next_step}"


class SettingsError(MyceliumError):
    """Settings contradict each other, or one is out of its range. Nothing was started."""


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


class ServerError(MyceliumError):
    """The Redis or Valkey server did not do what was asked."""


class ServerUnavailableError(ServerError):
    """The server cannot be reached, or refuses for now. The command did not run."""


class ReplyLostError(ServerError):
    """A command was sent and its reply never came: it ran zero, one or more times (S1)."""


class OutcomeUnrecordedError(ServerError):
    """A body ran, and how it ended could not be recorded yet. It will not run twice by guess.

    Attributes:
        result: what the body returned.
    """

    def __init__(self, what: str, *, next_step: str, result: object) -> None:
        self.result = result
        super().__init__(what, next_step=next_step)


class ServerUnfitError(ServerError):
    """The server answers, but may not hold a ledger: a replica, an evicting policy, a version too old."""


class ServerBinaryMissingError(ServerError):
    """No server binary was found for the embedded server."""


class ScriptError(ServerError):
    """A script failed in the server: a defect of ours, or a key edited by hand. Never retried blindly."""


class EpochChangedError(ServerError):
    """The data set is not the one that this holder opened its session in: history may have been lost."""


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────────


class LeaseError(MyceliumError):
    """The caller may not act (any more)."""


class SessionLostError(LeaseError):
    """The session has ended: nothing that it held can be dispatched or marked by it."""


# ── the call, at submit ──────────────────────────────────────────────────────────────────────────────────────────────


class BadCallError(MyceliumError):
    """The call was refused before anything was written."""


class UnknownToolError(BadCallError):
    """No tool of that name is known here."""


class BadArgumentsError(BadCallError):
    """The arguments are not JSON, do not fit the tool's signature, or have no canonical form (K2)."""


class MissingRequestIdentityError(BadCallError):
    """Nothing names the intended effect: a retry of the call could not be told from a new one."""


class DeadlinePassedError(BadCallError):
    """The call came too late to be run: nothing was recorded."""


class PayloadTooLargeError(BadCallError):
    """Arguments or identity are above the limit."""


class IdentityConflictError(BadCallError):
    """The same request id names another effect: other arguments, tool, class or scope (K3)."""


class ArgsDriftError(IdentityConflictError):
    """The same dispatch came before with other arguments: a retry has the same ones, and a new call a new dispatch."""


class ToolDeclarationError(BadCallError):
    """A tool was declared with a binding that cannot hold."""


class ToolCapabilityDeclarationError(ToolDeclarationError):
    """A tool claims more of its recovery than its class, key and reconciler can support."""


# ── the outcome ──────────────────────────────────────────────────────────────────────────────────────────────────────


class OutcomeError(MyceliumError):
    """The job ended, or waits, without a result to give.

    Attributes:
        request_id: the transition.
        cause: the error class the tool or provider named, or a reason word; never arguments or results.
        detail: the message that came with it.
        why: of one that is dead or cancelled, the word for what ended it (see `Cause`); empty: nothing says.
    """

    def __init__(  # noqa: PLR0913 - an outcome is told whole or not at all
        self,
        what: str,
        *,
        next_step: str,
        state: str,
        request_id: str,
        cause: str = "",
        detail: str = "",
        why: str = "",
    ) -> None:
        self.why = why
        self.request_id = request_id
        self.cause = cause
        self.detail = detail
        super().__init__(what, next_step=next_step, state=state)


class JobFailedError(OutcomeError):
    """No effect exists and none can still arrive."""


class JobUnknownError(OutcomeError):
    """The effect may exist. It is never retried by guess: a reconciler or a person settles it."""


class JobCancelledError(OutcomeError):
    """Somebody cancelled it, or its time was over: it has no effect, and does not run any more."""


class JobDeadError(OutcomeError):
    """Attempts, deaths or timeouts are used up; no effect exists."""


class ResultTimeoutError(MyceliumError):
    """The wait ended before the job did. The job goes on: nothing was written to it."""


class OwnerLostError(ResultTimeoutError):
    """The wait ended: whoever held the job is lost, and nobody has taken it up for a whole TTL: is there a worker?"""


class JobNotFoundError(MyceliumError):
    """No transition of that request id is on record. This is not proof that its effect never happened."""


class ReceiptError(MyceliumError):
    """A receipt could not be made or kept. The call that it is of stands as it is."""


# ── what a person asks of the ledger ─────────────────────────────────────────────────────────────────────────────────


class LedgerError(MyceliumError):
    """The ledger refused to change a transition. Nothing was written."""


class LedgerHardBlockError(LedgerError):
    """The call is on record, and may not run again: a provider or a person has to say what became of it.

    Attributes:
        request_id: the transition.
        why: the rule that decided, as a word.
    """

    def __init__(
        self, what: str, *, next_step: str, state: str | None = None, request_id: str = "", why: str = ""
    ) -> None:
        self.request_id = request_id
        self.why = why
        super().__init__(what, next_step=next_step, state=state)


class LedgerDeniedError(LedgerHardBlockError):
    """A registered predicate denied the call. Its body did not run, and the denial is recorded."""


class LedgerSoftBlockError(LedgerHardBlockError):
    """A read whose outcome is unknown is not run again, because its caller asked for that. It may be called later."""


class LedgerPollTimeoutError(LedgerError):
    """The wait for another holder is over before the transition is. Nothing was written to it."""


class LedgerOutcomeAlreadySetError(LedgerError):
    """A write of an attempt was refused: it is not the current one any more, or its decision or outcome is recorded."""


class LedgerReleaseRefusedError(LedgerError):
    """A person may not settle this, or not now: it is held, ended, or not in doubt, or nobody may say so."""


class LedgerAlreadyResolvedError(LedgerError):
    """A person's verification of this attempt is on record; it is never overwritten."""


class LedgerWorkerAliveError(LedgerError):
    """The old attempt may still send: wait, or declare its worker dead."""


# ── inside a tool ────────────────────────────────────────────────────────────────────────────────────────────────────


class NotExecuted(MyceliumError):  # noqa: N818 - a verdict that a tool raises, not a fault
    """Raised by a tool to prove that its effect did not happen and cannot still arrive.

    Raise it for a refusal that the provider documents as "not done". A timeout is never one.

    Attributes:
        retry_after_s: after so many seconds the call may run again, whatever its class, charged as an attempt; None:
            the failure is final.
        of_attempt: fence of the attempt that it ended first, and the only one that it speaks of; empty: none yet.
    """

    def __init__(self, why: str, *, retry_after_s: float | None = None) -> None:
        self.of_attempt = ""
        self.retry_after_s = retry_after_s
        super().__init__(why, next_step="The failure is final; submit a new request id to try again.")

    def __str__(self) -> str:
        return self.what


class Snooze(NotExecuted):
    """Raised by a tool that has done nothing yet and wants to be asked later: costs no attempt."""

    def __init__(self, delay_s: float, why: str = "It is not its time yet.") -> None:
        super().__init__(why, retry_after_s=delay_s)


class Retry(MyceliumError):  # noqa: N818 - a wish that a tool raises, not a fault
    """Raised by a tool that failed and knows when to run again; it proves nothing about what was done.

    A class that may repeat runs again then, and is charged an attempt. A write that may have been sent becomes unknown,
    as with any other error: raise `NotExecuted(..., retry_after_s=...)` where the provider says that nothing was done.
    """

    def __init__(self, why: str, *, after_s: float) -> None:
        self.after_s = after_s
        super().__init__(why, next_step="It runs again by itself, if its class allows it.")

    def __str__(self) -> str:
        return self.what


class BoundaryError(MyceliumError):
    """A mark was refused: the effect must not start."""


# ── the actor runtime ────────────────────────────────────────────────────────────────────────────────────────────────


class ActorError(MyceliumError):
    """An actor could not take or answer a message."""


class MailboxFullError(ActorError):
    """The mailbox is at its bound: the sender must slow down."""


class ActorStoppedError(ActorError):
    """The actor has stopped: the message was not handled."""


class AskTimeoutError(ActorError):
    """No answer within the deadline: the message may still be handled."""


class EscalationError(ActorError):
    """A supervisor used up its restart intensity and gives the failure to its own supervisor."""
