"""`mycelium transitions cancel` and `requeue`: that a transition does not run any more, or that it runs again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .connected import connected
from .options import AsJson, ExitCode, Login, Namespace, Url
from .output import print_json, run, say, shown

if TYPE_CHECKING:
    from ..ledger.cancel import Cancelled
    from ..ledger.listing import Listed

RequestId = Annotated[str, typer.Argument(metavar="ID", help="The request id, or one that joined it.")]


def cancel(  # noqa: PLR0913, PLR0917 - each is an option of the command
    request_id: RequestId,
    by: Login,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the record.")] = "",
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Cancel a transition: it does not run, or does not run again. Nothing that was sent is undone.

    What nobody holds is cancelled at once. What somebody holds is asked to stop, and it is found out what became of it.
    Where it has had its effect already, this ends with code 1.
    """
    run(_cancel(request_id, by, reason, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


def requeue(  # noqa: PLR0913, PLR0917 - each is an option of the command
    request_id: RequestId,
    by: Login,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the record.")],
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002 - an option
) -> None:
    """Let a dead, cancelled or failed transition run again: its counts begin anew, and its history goes on.

    Refused while it has not ended, and where it had its effect. Its old deadline does not hold any more.
    """
    run(_requeue(request_id, by, reason, url=url, namespace=namespace, as_json=as_json), as_json=as_json)


async def _cancel(  # noqa: PLR0913 - (the same)
    request_id: str, by: str, reason: str, *, url: str | None, namespace: str, as_json: bool
) -> None:
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.cancel import CancelReply, cancel  # noqa: PLC0415 - (the same)
    from ..ledger.listing import look_at  # noqa: PLC0415 - (the same)
    from ..ledger.states import State  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    async with connected(url, namespace) as store:
        done = await cancel(store, request_id, by=by, reason=reason)
        after = await look_at(store, done.request_id)
    if as_json:
        print_json({"cancel": {"word": done.word} | _standing(after)})
    else:
        say(shown(_told(done, after)))
    if done.word is CancelReply.ENDED and done.state is State.COMPLETED:
        raise typer.Exit(ExitCode.NO_RESULT)


def _told(done: Cancelled, after: Listed) -> str:
    from ..ledger.cancel import CancelReply  # noqa: PLC0415 - help and completion come without it
    from ..ledger.states import State  # noqa: PLC0415 - (the same)

    name = done.request_id
    match done.word:
        case CancelReply.CANCELLED:
            return f"Cancelled. {name} has no effect, and does not run any more."
        case CancelReply.ASKED:
            return f"Asked. {name} is {after.record.state}: {after.advice.text}."
        case CancelReply.UNKNOWN:
            return f"Recorded. {name} may have had its effect, and does not run again. Now: {after.advice.text}."
        case _:
            had = ": it has had its effect" if done.state is State.COMPLETED else ""
            return f"Nothing was changed. {name} had ended as {done.state}{had}."


async def _requeue(  # noqa: PLR0913 - (the same)
    request_id: str, by: str, reason: str, *, url: str | None, namespace: str, as_json: bool
) -> None:
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.listing import look_at  # noqa: PLC0415 - (the same)
    from ..ledger.requeue import requeue  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    async with connected(url, namespace) as store:
        after = await look_at(store, await requeue(store, request_id, by=by, reason=reason))
    if as_json:
        print_json({"requeued": _standing(after)})
        return
    say(shown(f"Requeued. {after.record.request_id} is {after.record.state}: {after.advice.text}."))


def _standing(after: Listed) -> dict[str, object]:
    return {
        "request_id": after.record.request_id,
        "state": after.record.state,
        "next": after.advice.text,
        "commands": after.advice.commands,
    }
