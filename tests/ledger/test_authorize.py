"""Who may settle by hand: only a credential that is proved to be the operator's own, and every doubt is a no."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from mycelium.leases.errors import LedgerReleaseRefusedError, SettingsError
from mycelium.ledger.authorize import (
    OPERATORS,
    OperatorAction,
    OperatorAuthorizer,
    StaticTokenOperatorAuthorizer,
    check_operator,
    operators_of,
)

SECRET = "correct horse battery staple"


class Told:
    """An authorizer that answers as it was told, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:  # noqa: ANN401 - also what no authorizer should answer
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def authorize(self, **asked: Any) -> Any:  # noqa: ANN401 - (the same)
        self.asked = asked
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


async def check(authorizer: object, credential: str | None = None, by: str = "ops") -> None:
    await check_operator(
        cast("OperatorAuthorizer | None", authorizer), OperatorAction.RELEASE, "r1", by=by, credential=credential
    )


async def test_without_an_authorizer_nobody_is_asked() -> None:
    await check(None)


async def test_it_is_told_who_asks_for_what_with_which_credential() -> None:
    authorizer = Told(True)
    await check(authorizer, "c")
    assert authorizer.asked == {"action": "release", "request_id": "r1", "by": "ops", "credential": "c"}


@pytest.mark.parametrize("answer", [False, None, 1, "yes", RuntimeError(f"bad {SECRET}")], ids=repr)
async def test_anything_but_true_is_a_no(answer: object) -> None:
    with pytest.raises(LedgerReleaseRefusedError) as refused:
        await check(Told(answer), SECRET)
    assert SECRET not in f"{refused.value} {refused.value!r} {refused.value.__cause__!r}"
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


async def test_an_authorizer_may_be_asynchronous() -> None:
    async def say(answer: bool) -> bool:  # noqa: FBT001
        return answer

    await check(Told(say(True)))
    with pytest.raises(LedgerReleaseRefusedError):
        await check(Told(say(False)))


@pytest.mark.parametrize(
    "by,credential", [("ops", None), ("ops", ""), ("ops", "wrong"), ("dev", SECRET), ("nobody", SECRET), ("nobody", "")]
)
async def test_a_missing_wrong_or_somebody_elses_token_is_refused(by: str, credential: str | None) -> None:
    authorizer = StaticTokenOperatorAuthorizer({"ops": SECRET, "dev": "another"})
    with pytest.raises(LedgerReleaseRefusedError, match="not authorized"):
        await check(authorizer, credential, by)
    await check(authorizer, SECRET, "ops")


def test_no_token_is_shown_or_kept() -> None:
    authorizer = StaticTokenOperatorAuthorizer({"ops": SECRET})
    assert SECRET not in repr(authorizer) + repr(vars(authorizer))


async def test_a_digest_stands_for_its_token_and_is_none_itself() -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    authorizer = StaticTokenOperatorAuthorizer({"ops": f"sha256:{digest}"})
    await check(authorizer, SECRET)
    for stolen in (digest, f"sha256:{digest}"):
        with pytest.raises(LedgerReleaseRefusedError):
            await check(authorizer, stolen)


async def test_no_digest_makes_a_token_of_nothing() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    for credential in (None, ""):
        with pytest.raises(LedgerReleaseRefusedError):
            await check(StaticTokenOperatorAuthorizer({"ops": f"sha256:{digest}"}), credential)


@pytest.mark.parametrize(
    "tokens",
    [{}, {" ": "t"}, {"ops": " "}, {"ops": None}, {"ops": "sha256:abc"}, {"ops": "sha256:" + "g" * 64}],
    ids=repr,
)
def test_operators_without_a_name_or_a_token_are_refused(tokens: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        StaticTokenOperatorAuthorizer(tokens)


async def test_the_environment_names_a_file_of_operators(tmp_path: Path) -> None:
    assert operators_of({}) is None
    file = tmp_path / "operators.json"
    file.write_text(json.dumps({"ops": SECRET}))
    authorizer = operators_of({OPERATORS: str(file)})
    await check(authorizer, SECRET)
    for broken in (f'{{"ops": "{SECRET}"', f'["{SECRET}"]'):
        file.write_text(broken)
        with pytest.raises(SettingsError) as refused:
            operators_of({OPERATORS: str(file)})
        assert SECRET not in str(refused.value)
    with pytest.raises(SettingsError):
        operators_of({OPERATORS: str(tmp_path / "none.json")})
