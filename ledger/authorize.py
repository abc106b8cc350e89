"""Who may settle a transition by hand, where the application wants to know that for sure.

This guards the verbs of this package, and nothing else: whoever can write to the server can change any record there.
What keeps others out is the server's own password and rights; keep them away from operators' accounts.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import json
import stat
from collections.abc import Awaitable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol, cast

from ..leases.errors import LedgerReleaseRefusedError, SettingsError

DIGEST = "sha256:"
"""In front of 64 hex digits: the digest of a token, in place of the token itself."""

OPERATORS = "MYCELIUM_OPERATORS"
"""The environment variable that names a JSON file of operators: name to token, or to `sha256:` and its digest."""


class OperatorAction(StrEnum):
    """What a person asks for."""

    RELEASE = "release"
    """To record what they verified of an unknown transition."""
    MARK_DEAD = "mark_dead"
    """To declare a holder dead."""


class OperatorAuthorizer(Protocol):
    """Says whether a person may do something. It may also be asynchronous."""

    def authorize(
        self, *, action: OperatorAction, request_id: str, by: str, credential: str | None
    ) -> bool | Awaitable[bool]:
        """Answer True only if this credential proves that it is `by` who asks, and that they may.

        Args:
            action: what is asked for.
            request_id: as it was given; it may be another id of a transition that was joined.
            by: who says that they ask.
            credential: what they present; None: nothing.
        """
        ...


class StaticTokenOperatorAuthorizer:
    """Each operator has a secret token. Tokens are compared in constant time, and only their digests are kept.

    Args:
        tokens: operator to token, or to `sha256:` and the hex digest of the token.

    Raises:
        SettingsError: there is no operator, or a name or token is blank or not text.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens:
            raise SettingsError("No operator is named.", next_step="Give each operator a token.")
        self._digests = {name: _digest_of(name, token) for name, token in tokens.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._digests)} operators)"

    def authorize(self, *, action: OperatorAction, request_id: str, by: str, credential: str | None) -> bool:  # noqa: ARG002 - the protocol's
        """Answer True if the token is this operator's own."""
        expected = self._digests.get(by, "0" * 64)
        presented = hashlib.sha256((credential or "").encode("utf-8", "surrogatepass")).hexdigest()
        # An unknown operator costs the same comparison as a known one.
        same = hmac.compare_digest(presented.encode(), expected.encode())
        return same and bool(credential)


async def check_operator(
    authorizer: OperatorAuthorizer | None,
    action: OperatorAction,
    request_id: str,
    *,
    by: str,
    credential: str | None,
) -> None:
    """Let pass only what the authorizer allows; without one, everything.

    Raises:
        LedgerReleaseRefusedError: it said no, failed, or answered anything but True.
    """
    if authorizer is None:
        return
    why = "refused"
    try:
        answer = authorizer.authorize(action=action, request_id=request_id, by=by, credential=credential)
        allowed = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:  # noqa: BLE001 - it may be anybody's code, and whatever it raises is no consent
        # Its message may hold the credential.
        allowed, why = False, f"could not be checked ({type(error).__name__})"
    if allowed is not True:
        asked = f"The {action.replace('_', '-')} of {request_id!r} by {by!r}"
        next_step = "Nothing was asked of the ledger. Present your own credential."
        raise LedgerReleaseRefusedError(f"{asked} was not authorized: the credential was {why}.", next_step=next_step)


def operators_of(environ: Mapping[str, str]) -> StaticTokenOperatorAuthorizer | None:
    """Read the operators from the file that the environment names; None: it names none.

    Raises:
        SettingsError: the file cannot be read, or is not what it should be.
    """
    name = environ.get(OPERATORS)
    if not name:
        return None
    try:
        found: object = json.loads(Path(name).read_bytes())
    except (OSError, ValueError) as error:
        # What a parser says of a file may quote it.
        what = f"The operators' file that {OPERATORS} names cannot be read ({type(error).__name__})."
        raise SettingsError(what, next_step="Nobody may release anything until it can.") from None
    if not isinstance(found, dict):
        what = f"The operators' file that {OPERATORS} names is not a JSON object."
        raise SettingsError(what, next_step="Write {operator: token}; nobody may release anything until then.")
    return StaticTokenOperatorAuthorizer(cast("dict[str, str]", found))


def exposed_operators(environ: Mapping[str, str]) -> str | None:
    """Say what is wrong with the rights of the operators' file; None: nothing, or there is no file."""
    try:
        mode = Path(environ[OPERATORS]).stat().st_mode
    except (KeyError, OSError):
        return None
    if not mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        return None
    return f"The operators' file that {OPERATORS} names can be read or changed by others: chmod 600 keeps them out."


def _digest_of(name: str, token: object) -> str:
    if not (name.strip() and isinstance(token, str) and token.strip()):
        what = f"Operator {name!r} has no token."
        raise SettingsError(what, next_step="Give each operator a name and a token, as text.")
    if not token.startswith(DIGEST):
        return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    digest = token.removeprefix(DIGEST).lower()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):  # noqa: PLR2004 - hex digits of SHA-256
        what = f"What follows {DIGEST!r} for operator {name!r} is not a SHA-256 digest."
        raise SettingsError(what, next_step="Write 64 hex digits.")
    return digest
