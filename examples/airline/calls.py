"""Reads the recorded calls, and gives each the identity that the product will derive for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import cast

from ...actors.load import load_tools
from ...actors.submissions import AnyTool, Submission, intent_of
from ...leases.errors import BadCallError, SettingsError
from ...ledger.canon import DEFAULT_MAX_ARGS_BYTES
from ...ledger.states import EffectClass

NAMESPACE = "mycelium"
"""Part of every key that the airline is sent: the replay runs in the default namespace."""

TOOLS_MODULE = "mycelium.examples.airline.tools"

_FIELDS: dict[str, type] = {
    "run_id": str,
    "step": int,
    "tool_call_id": str,
    "tool": str,
    "arguments": str,
    "result": str,
}
_JSON_NAMES = {str: "text", int: "a whole number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call as it was made, and what it was answered.

    Attributes:
        line: its line in the file, from 1.
        run_id: the agent's run.
        step: the model turn.
        ordinal: which one of several equal calls of its step, from 0.
        tool_call_id: the model's id: a hint, and not unique.
        tool: the tool's name.
        arguments: JSON values by name.
        result: the answer then; a refusal begins with `Error:`.
        is_write: whether the tool has an effect.
        key: the effect id that the product derives, which the tools send as their idempotency key.
        canonical: the arguments in their canonical form.
    """

    line: int
    run_id: str
    step: int
    ordinal: int
    tool_call_id: str
    tool: str
    arguments: dict[str, object]
    result: str
    is_write: bool
    key: str
    canonical: bytes

    @property
    def is_refused(self) -> bool:
        """Whether the airline refused this write, so that it has no effect."""
        return self.is_write and self.result.startswith("Error:")


def bundled_calls() -> Path:
    """The file that ships with the package."""
    return Path(str(resources.files(__package__ or "").joinpath("airline_calls.jsonl")))


def read_calls(path: Path) -> list[RecordedCall]:
    """Read a file of recorded calls, checked whole before anything runs.

    Args:
        path: JSON lines with the fields that SOURCE.md describes; blank lines are passed over.

    Raises:
        SettingsError: the file cannot be read, has no call, or a line is not one; the text names the line.
    """
    tools = load_tools(TOOLS_MODULE)
    seen: Counter[str] = Counter()
    calls = [_call(path, number, line, tools, seen) for number, line in _lines(path)]
    if not calls:
        raise _refused(f"{path} has no calls.")
    return calls


def by_run(calls: list[RecordedCall]) -> list[list[RecordedCall]]:
    """Group calls by their run; runs and calls keep their order."""
    runs: dict[str, list[RecordedCall]] = {}
    for call in calls:
        runs.setdefault(call.run_id, []).append(call)
    return list(runs.values())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _refused(f"The calls file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise _refused(f"The calls file {path} is not UTF-8 (byte {error.start}).") from None
    # Not splitlines(): text inside JSON may hold other line separators.
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _call(path: Path, number: int, line: str, tools: Mapping[str, AnyTool], seen: Counter[str]) -> RecordedCall:
    where = f"{path}, line {number}"
    row = _row(where, line)
    arguments = _object(f"{where}: arguments", str(row["arguments"]))
    call = Submission(
        str(row["tool"]),
        arguments,
        run_id=str(row["run_id"]),
        step=cast("int", row["step"]),
        tool_call_id=str(row["tool_call_id"]),
    )
    try:
        first = intent_of(call, tools, namespace=NAMESPACE, max_args_bytes=DEFAULT_MAX_ARGS_BYTES).identity.request_id
        call = replace(call, ordinal=seen[first])
        intent = intent_of(call, tools, namespace=NAMESPACE, max_args_bytes=DEFAULT_MAX_ARGS_BYTES)
    except BadCallError as error:
        raise _refused(f"{where}: {error.what}") from None
    seen[first] += 1
    return RecordedCall(
        line=number,
        run_id=str(row["run_id"]),
        step=cast("int", row["step"]),
        ordinal=call.ordinal or 0,
        tool_call_id=str(row["tool_call_id"]),
        tool=intent.tool,
        arguments=arguments,
        result=str(row["result"]),
        is_write=intent.binding.effect_class is not EffectClass.READ,
        key=intent.identity.effect_id,
        canonical=intent.identity.args,
    )


def _row(where: str, line: str) -> dict[str, object]:
    row = _object(where, line)
    missing = [name for name in _FIELDS if name not in row]
    if missing:
        raise _refused(f"{where}: {', '.join(missing)} missing.")
    for name, kind in _FIELDS.items():
        if not isinstance(row[name], kind) or isinstance(row[name], bool):
            raise _refused(f"{where}: {name} is not {_JSON_NAMES[kind]}.")
    return row


def _object(where: str, text: str) -> dict[str, object]:
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refused(f"{where} is not JSON: {error.msg} at column {error.colno}.") from None
    except (RecursionError, ValueError):
        raise _refused(f"{where} is nested too deep, or has a number that is too long.") from None
    if not isinstance(value, dict):
        raise _refused(f"{where} is not a JSON object.")
    return cast("dict[str, object]", value)


def _refused(what: str) -> SettingsError:
    return SettingsError(
        what, next_step="Nothing was started. Correct the file; SOURCE.md of the example describes it."
    )
