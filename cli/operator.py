"""`mycelium transitions release` and `mark-dead`: what a person may record of a transition. Neither runs anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..leases.errors import JobNotFoundError, LedgerReleaseRefusedError, SettingsError
from ..ledger.states import State
from .connected import connected
from .options import AsJson, Namespace, Url
from .output import print_json, run, say, shown
from .reading import read_result

if TYPE_CHECKING:
    from ..leases.store import Store
    from ..ledger.record import Record

RequestId = Annotated[str, typer.Argument(metavar="ID", help="The request id, or one that joined it.")]


def _not_blank(given: str) -> str:
    if not given.strip():
        blank = "it is blank: say who says so, and why"
        raise typer.BadParameter(blank)
    return given


By = Annotated[str, typer.Option("--by", callback=_not_blank, help="Who says so. A stamp in the record, not a proof.")]
Reason = Annotated[str, typer.Option("--reason", callback=_not_blank, help="What it rests on; kept in the record.")]
_OVERRIDE = "--override-heartbeat"
TokenEnv = Annotated[
    str,
    typer.Option(
        "--token-env",
        metavar="NAME",
        help="The environment variable that holds your token, where MYCELIUM_OPERATORS names a file of operators.",
    ),
]
_TOKEN = "MYCELIUM_OPERATOR_TOKEN"  # noqa: S105 - the name of a variable


class Verified(StrEnum):
    """What was verified, as it is typed."""

    COMPLETED = "completed"
    """The effect happened."""
    NOT_EXECUTED = "not-executed"
    """It did not, and cannot any more."""


def release(  # noqa: PLR0913, PLR0917 - each is an option of the command
    request_id: RequestId,
    verified: Annotated[
        Verified,
        typer.Option(help="What you verified: it happened; or it did not and cannot any more: it runs once more."),
    ],
    by: By,
    reason: Reason,
    result: Annotated[
        str | None,
        typer.Option(
            "--result-json",
            metavar="JSON|@FILE|-",
            help="With completed, and then needed: what the call is answered with; null, if the tool returns nothing.",
        ),
    ] = None,
    expect: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only if it is still as `show` told: its version.")
    ] = None,
    override: Annotated[  # noqa: FBT002
        bool,
        typer.Option(
            _OVERRIDE,
            help="With not-executed: you know that the old attempt can send nothing more, before it is presumed so. "
            "Takes nothing from a worker that may be alive: mark-dead does. The reason is told so.",
        ),
    ] = False,
    token_env: TokenEnv = _TOKEN,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Record what you verified with the provider of a transition in doubt. Once; it is never overwritten.

    Whoever can write to the server has this authority without asking: protect its password and rights so.
    """
    if result is not None and verified is Verified.NOT_EXECUTED:
        raise typer.BadParameter("what was not executed has no result", param_hint="--result-json")
    if result is None and verified is Verified.COMPLETED:
        needed = "say what the call is answered with from now on; null, if the tool returns nothing"
        raise typer.BadParameter(needed, param_hint="--result-json")

    async def record(store: Store, **who: Any) -> Record:  # noqa: ANN401 - handed on as they are
        from ..ledger import release as verbs  # noqa: PLC0415 - help and completion come without it

        word = verbs.Verified(verified.replace("-", "_"))
        value = verbs.NOT_GIVEN if result is None else read_result(result)
        return await verbs.release(store, request_id, verified=word, result=value, expect=expect, **who)

    who = {"by": by, "reason": reason, "override": override}
    work = _record(request_id, record, who, token_env, url=url, namespace=namespace, as_json=as_json)
    run(work, as_json=as_json)


def mark_dead(  # noqa: PLR0913, PLR0917 - each is an option of the command
    request_id: RequestId,
    by: By,
    reason: Reason,
    override: Annotated[  # noqa: FBT002
        bool,
        typer.Option(_OVERRIDE, help="Although it was heard of lately: you saw it die. The reason is told so."),
    ] = False,
    token_env: TokenEnv = _TOKEN,
    url: Url = None,
    namespace: Namespace = "mycelium",
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Declare the worker that holds a transition dead: its session ends, with all that it holds.

    Refused while the worker was heard of lately. Whoever can write to the server has this authority without asking.
    """

    async def record(store: Store, **who: Any) -> Record:  # noqa: ANN401 - handed on as they are
        from ..ledger import mark_dead as verbs  # noqa: PLC0415 - help and completion come without it

        return await verbs.mark_dead(store, request_id, **who)

    who = {"by": by, "reason": reason, "override": override}
    work = _record(request_id, record, who, token_env, url=url, namespace=namespace, as_json=as_json)
    run(work, as_json=as_json)


async def _record(  # noqa: PLR0913 - each is an option of the command
    request_id: str,
    record: Callable[..., Any],
    who: Mapping[str, object],
    token_env: str,
    *,
    url: str | None,
    namespace: str,
    as_json: bool,
) -> None:
    from ..actors.client import checked_request_id  # noqa: PLC0415 - help and completion come without it
    from ..ledger.listing import look_at  # noqa: PLC0415 - (the same)

    checked_request_id(request_id)
    proof = _proof(token_env)
    async with connected(url, namespace) as store:
        try:
            after: Record = await record(store, **who, **proof)
        except LedgerReleaseRefusedError as refusal:
            # An id that is not there is told as such, whatever is asked of it.
            if isinstance(refusal.__cause__, JobNotFoundError):
                raise refusal.__cause__ from None
            raise
        advice = (await look_at(store, after.request_id)).advice
    if as_json:
        told = {"request_id": after.request_id, "state": after.state, "resolution": after.resolution}
        print_json({"recorded": {**told, "next": advice.text, "commands": advice.commands}})
        return
    text = (
        "who asks for it gets the result that you gave, and nothing runs"
        if after.state is State.COMPLETED
        else advice.text
    )
    say(shown(f"Recorded. {after.request_id} is {after.state}: {text}."))


def _proof(token_env: str) -> dict[str, Any]:
    """Give what asks for a credential, and the credential."""
    from ..ledger.authorize import OPERATORS, exposed_operators, operators_of  # noqa: PLC0415 - (as above)

    authorizer, credential = operators_of(os.environ), os.environ.get(token_env)
    if authorizer is not None and not credential:
        what = f"{OPERATORS} names a file of operators, and the variable {token_env} with your token is empty."
        next_step = f"Nothing was asked of the ledger. Set {token_env}, or name another variable with --token-env."
        raise SettingsError(what, next_step=next_step)
    if warning := exposed_operators(os.environ):
        typer.echo(f"warning: {warning}", err=True)
    return {"authorizer": authorizer, "credential": credential}
