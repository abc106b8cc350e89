"""What makes two calls the same: canonical arguments, the request id and the effect id.

The rule, version 1 (K1, K2). Arguments are canonicalised after validation and defaults, as JSON values:

- an object's keys are text, sorted by code point; no key twice;
- text is UTF-8 with JSON's shortest escapes; it is not normalised: composed and decomposed letters differ; lone
  surrogates are refused;
- an integer is its digits, up to 4096 bits; a number with a fraction is the shortest digits that read
  back the same, as Python writes them;
- a number without a fraction is an integer, however it was written: `1`, `1.0` and `1e0` are equal, and so are `-0.0`
  and `0`, and `1e16` is the integer of 17 digits; `true` is no number;
- NaN and the infinities are refused, and so are values deeper than 64 and larger than the limit.

The effect id is the SHA-256 of the canonical preimage. A tool call id that a model made up takes no part in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from ..leases.errors import BadArgumentsError, BadCallError, PayloadTooLargeError

CANON_VERSION = 1
MAX_DEPTH = 64
MAX_REQUEST_ID_BYTES = 256
DEFAULT_MAX_ARGS_BYTES = 1 << 20
MAX_INTEGER_BITS = 4096

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def canonical(value: object, *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> bytes:
    """Encode a JSON value by the rule of this module.

    Args:
        value: None, bool, int, float, str, and lists, tuples and mappings of them.
        max_bytes: the limit on the encoded size, in bytes.

    Raises:
        BadArgumentsError: the value has no canonical form.
        PayloadTooLargeError: the encoding is above the limit.
    """
    text = json.dumps(_plain(value, "arguments", 0), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    encoded = text.encode("utf-8")
    if len(encoded) > max_bytes:
        what = f"The arguments take {len(encoded):,} bytes; the limit is {max_bytes:,}."
        next_step = "Nothing was submitted. Store the body elsewhere and pass a reference."
        raise PayloadTooLargeError(what, next_step=next_step)
    return encoded


def _plain(value: object, path: str, depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise _refused(path, f"is nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        return _number(value, path)
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, (list, tuple)):
        members = cast("Sequence[object]", value)
        return [_plain(member, f"{path}[{at}]", depth + 1) for at, member in enumerate(members)]
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value), path, depth)
    raise _refused(path, f"is a {type(value).__name__}, which JSON does not have")


def _object(value: Mapping[object, object], path: str, depth: int) -> Json:
    plain: dict[str, Json] = {}
    for key in value:
        if not isinstance(key, str):
            raise _refused(path, f"has a key that is a {type(key).__name__}; keys must be text")
        _text(key, path)
    for key in sorted(key for key in value if isinstance(key, str)):
        plain[str.__str__(key)] = _plain(value[key], f"{path}.{key}", depth + 1)
    return plain


def _integer(value: int, path: str) -> int:
    # Python itself refuses to write or read more than 4300 digits.
    if value.bit_length() > MAX_INTEGER_BITS:
        raise _refused(path, f"is an integer of more than {MAX_INTEGER_BITS} bits")
    return int(value)


def _number(value: float, path: str) -> Json:
    if not math.isfinite(value):
        raise _refused(path, "is not a finite number")
    if value.is_integer():
        return int(value)
    return float(value)


def _text(value: str, path: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _refused(path, "has a lone surrogate, which is not text") from None
    # Not str(): an enumeration that is text has its text here, not its name.
    return str.__str__(value)


def _refused(path: str, rule: str) -> BadArgumentsError:
    where = path.encode("utf-8", "backslashreplace").decode()
    return BadArgumentsError(f"{where[:200]} {rule}.", next_step="Nothing was submitted. Correct the call.")


@dataclass(frozen=True, slots=True)
class Identity:
    """What one intended effect is known by.

    Attributes:
        request_id: the storage identity: the caller's, or derived.
        effect_id: 64 hex digits: the dedupe identity, and the idempotency key that a provider gets.
        args: canonical arguments, as they are stored and as the tool gets them.
    """

    request_id: str
    effect_id: str
    args: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a call stands in its agent's work. All of it takes part in a derived identity.

    Attributes:
        run_id: the agent's run.
        step: the model turn.
        ordinal: which one of several equal calls of one step, from 0: equal arguments do not mean equal intent (X10).
    """

    run_id: str | None = None
    step: int | None = None
    ordinal: int = 0


def identify(  # noqa: PLR0913 - an identity is made of all of it
    tool: str,
    effect_class: str,
    args: bytes,
    *,
    namespace: str,
    request_id: str | None = None,
    scope: Scope | None = None,
) -> Identity:
    """Name one intended effect.

    With an explicit request id, the scope is no part of the identity: the host owns it. Without one, a run id is
    needed, and the request id is derived from run, step, ordinal, tool and arguments. The effect class is part of the
    effect id only: a replay after the tool was declared anew finds its row, and is refused as another effect instead of
    running as a new one. The namespace is part of the effect id, since it is what a provider is sent: two namespaces
    that share a provider's account must not be taken for one.

    Args:
        tool: the tool's name.
        effect_class: the tool's effect class.
        args: what `canonical` gave for the meaningful arguments.
        namespace: the namespace of the ledger.
        request_id: the host-owned identity of the intended effect.
        scope: where the call stands.

    Raises:
        BadCallError: the request id is blank, too long or not text; or there is neither a request id nor a run id.
    """
    if request_id is not None:
        _check_request_id(request_id)
        where = ["explicit", request_id]
    else:
        where = ["derived", *_place(scope or Scope())]
        request_id = _digest([f"mycelium.request/v{CANON_VERSION}", *where, tool, args.decode()])
    preimage = [f"mycelium.effect/v{CANON_VERSION}", namespace, *where, tool, effect_class, args.decode()]
    return Identity(request_id, _digest(preimage), args)


def _place(scope: Scope) -> list[str]:
    if scope.run_id is None or not scope.run_id.strip():
        what = "The call has neither a request id nor a run id: a retry of it could not be told from a new call."
        raise BadCallError(what, next_step="Nothing was submitted. Give a request id, or a run id with a step.")
    _text(scope.run_id, "run_id")
    return [scope.run_id, "" if scope.step is None else str(scope.step), str(scope.ordinal)]


def _digest(parts: list[str]) -> str:
    # A JSON array is self-delimiting: no choice of parts can look like another.
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def _check_request_id(request_id: object) -> None:
    next_step = "Nothing was submitted. Pass a stable id of the intended effect, such as 'charge-order:ORD-1'."
    if not isinstance(request_id, str) or not request_id.strip():
        raise BadCallError("The request id is blank or not text.", next_step=next_step)
    if len(_text(request_id, "request_id").encode()) > MAX_REQUEST_ID_BYTES:
        raise BadCallError(f"The request id is longer than {MAX_REQUEST_ID_BYTES} bytes.", next_step=next_step)
    if not request_id.isprintable():
        raise BadCallError("The request id has a character that cannot be printed.", next_step=next_step)
