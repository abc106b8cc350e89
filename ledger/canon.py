"""The canonical form of arguments: what is equal by one written rule is equal in bytes, and nothing else is (K1, K2).

The rule, version 2; `docs/identity.md` has it in full. Values are taken after validation and defaults.

- JSON values are JSON: keys sorted by code point, no spaces; `1`, `1.0` and `1e0` are one integer, `true` is no number;
  text is UTF-8 with JSON's shortest escapes, and is not normalised.
- What JSON lacks is an object with one key that begins with `$` and names the kind: `{"$decimal":"1.5"}`. A key of the
  caller's own that begins with `$` gets a second one, so that nothing can look like a kind.
- A dataclass or pydantic model is the object of its fields, by field name; a tuple is a list; an enumeration that is
  text or a number is that.
- Whatever else there is has no canonical form: it is refused by path and rule, and its value is never told.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from ..leases.errors import BadArgumentsError, PayloadTooLargeError
from .canon_leaves import LEAVES, Leaf, Refusal

CANON_VERSION = 2
MAX_DEPTH = 64
DEFAULT_MAX_ARGS_BYTES = 1 << 20
MAX_INTEGER_BITS = 4096

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_NOTHING = "Nothing was submitted."
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
_SHOWN_KEY_CHARS = 24
_SHOWN_PATH_CHARS = 200


class Encoded(NamedTuple):
    """A value in canonical form, and what its reader may want to know of it.

    Attributes:
        text: the canonical form, as UTF-8.
        is_json: whether the text is also the value's own JSON: no `$`, and nothing of the next is in it.
        kinds: the classes that the form does not name (dataclasses, models, named tuples, enumerations), as met.
    """

    text: bytes
    is_json: bool
    kinds: tuple[type, ...]

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<canonical form of {len(self.text):,} bytes>"


def encode(value: object, *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> Encoded:
    """Encode a value by the rule of this module.

    Args:
        value: what the rule knows, to any depth up to 64.
        max_bytes: the limit on the encoded size, in bytes.

    Raises:
        BadArgumentsError: the value, or something in it, has no canonical form.
        PayloadTooLargeError: the encoding is above the limit.
    """
    walk = _Walk(max_bytes)
    text = walk.encode(value)
    return Encoded(text, walk.is_json and not walk.kinds, tuple(walk.kinds))


def canonical(value: object, *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> bytes:
    """Encode a value by the rule of this module: the text of `encode`.

    Raises:
        BadArgumentsError: the value, or something in it, has no canonical form.
        PayloadTooLargeError: the encoding is above the limit.
    """
    return _Walk(max_bytes).encode(value)


def json_body(value: object, *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> bytes:
    """Encode a JSON value as it is stored: like its canonical form, but with the caller's own keys as they are.

    Raises:
        BadArgumentsError: the value is no JSON value, or has no canonical form.
        PayloadTooLargeError: the encoding is above the limit.
    """
    walk = _Walk(max_bytes, escape="")
    text = walk.encode(value)
    if not walk.is_json:
        raise BadArgumentsError(
            "The arguments hold what JSON does not have.", next_step=f"{_NOTHING} Correct the call."
        )
    return text


def pick(values: Mapping[str, object], path: str) -> object:
    """Take the value at a dotted path, such as `to.email`, out of validated values.

    Args:
        values: Python values by parameter name.
        path: names of parameters, keys and fields (by field name), with dots between.

    Raises:
        BadArgumentsError: there is nothing at the path, or None.
    """
    found: object = values
    try:
        for name in path.split("."):
            held = found if issubclass(type(found), Mapping) else dict(_fields_of(found))
            found = cast("Mapping[str, object]", held).get(name)
    except Exception:  # noqa: BLE001 - an object of the caller's own may raise anything
        found = None
    if found is None:
        raise BadArgumentsError(f"The arguments have nothing at {path!r}.", next_step=f"{_NOTHING} Pass it.")
    return found


class _Walk:
    """One pass over a value, which turns it into what the JSON encoder writes.

    Builtin types are read by their own methods, so that a subclass cannot show one value here and hold another.
    """

    __slots__ = ("escape", "is_json", "kinds", "left", "max_bytes")

    def __init__(self, max_bytes: int, *, escape: str = "$") -> None:
        self.max_bytes = max_bytes
        self.left = max_bytes
        self.escape = escape
        self.is_json = True
        self.kinds: list[type] = []

    def encode(self, value: object) -> bytes:
        try:
            plain = self.plain(value, 0)
            self.spend(0)
            text = _ENCODER.encode(plain).encode()
        except Exception as error:  # noqa: BLE001 - an object of the caller's own may raise anything
            raise _told(_at(error)) from None
        if len(text) > self.max_bytes:
            raise _too_large(f"{len(text):,} bytes; the limit is {self.max_bytes:,}")
        return text

    def plain(self, value: object, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise Refusal(f"is nested deeper than {MAX_DEPTH}")
        kind = type(value)
        write = _BY_TYPE.get(kind)
        if write is None:
            write = next((rule for a_kind, rule in _RULES if issubclass(kind, a_kind)), None) or _by_shape(kind)
        return write(self, value, depth)

    def spend(self, size: int) -> None:
        # One list that is in another many times over is small in memory and endless in bytes. What is counted is never
        # more than what is written in the end, so that nothing below the limit is refused.
        self.left -= size
        if self.left < 0:
            raise _too_large(f"more than {self.max_bytes:,} bytes")

    def tagged(self, name: str, value: Json) -> Json:
        self.is_json = False
        return {f"${name}": value}

    def members(self, members: Iterable[object], depth: int) -> list[Json]:
        out: list[Json] = []
        try:
            for member in members:
                out.append(self.plain(member, depth))  # noqa: PERF401 - its length tells where a refusal was
        except Exception as error:  # noqa: BLE001 - an object of the caller's own may raise anything
            raise _at(error, f"[{len(out)}]") from None
        return out

    def fields(self, items: Iterable[tuple[Any, Any]], depth: int) -> Json:
        fields: dict[str, object] = {}
        for key, value in items:
            if not issubclass(type(key), str):
                raise Refusal(f"has a key that is a {type(key).__name__}; keys must be text")
            name = _text(self, key, depth)
            if name in fields:
                raise Refusal("has one key twice")
            fields[name] = value
        self.spend(len(fields))
        out: dict[str, Json] = {}
        name = ""
        try:
            for name in sorted(fields):
                if name.startswith("$") and self.escape:
                    self.is_json = False
                    out[self.escape + name] = self.plain(fields[name], depth + 1)
                else:
                    out[name] = self.plain(fields[name], depth + 1)
        except Exception as error:  # noqa: BLE001 - an object of the caller's own may raise anything
            raise _at(error, _step(name)) from None
        return out


def _too_large(size: str) -> PayloadTooLargeError:
    next_step = f"{_NOTHING} Store the body elsewhere and pass a reference."
    return PayloadTooLargeError(f"The arguments take {size}.", next_step=next_step)


def _at(error: Exception, *step: str) -> Exception:
    if isinstance(error, PayloadTooLargeError):
        return error
    if not isinstance(error, Refusal):
        # An object of the caller's own may raise anything.
        error = Refusal(f"cannot be read ({type(error).__name__})")
    error.path.extend(step)
    return error


def _told(error: Exception) -> Exception:
    if not isinstance(error, Refusal):
        return error
    path = "".join(("arguments", *reversed(error.path)))[:_SHOWN_PATH_CHARS]
    what = f"{path} {error.rule}.".encode("utf-8", "backslashreplace").decode()
    return BadArgumentsError(what, next_step=f"{_NOTHING} Correct the call.")


def _step(key: str) -> str:
    # A key may be a card number, a token or an address: only what looks like a plain name is told.
    plain = key.isidentifier() and len(key) <= _SHOWN_KEY_CHARS and not any(char.isdigit() for char in key)
    return f".{key}" if plain else ".?"


# ── what each kind is ────────────────────────────────────────────────────────────────────────────────────────────────


def _word(_walk: _Walk, value: Any, _depth: int) -> Json:  # noqa: ANN401
    return cast("bool | None", value)


def _text(walk: _Walk, value: Any, _depth: int) -> str:  # noqa: ANN401
    # Not str(): an enumeration that is text has its text here, not its name.
    text = str.__str__(value)
    walk.left -= len(text)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refusal("has a lone surrogate, which is not text") from None
    return text


def _integer(_walk: _Walk, value: Any, _depth: int) -> int:  # noqa: ANN401
    # Python itself refuses to write or read more than 4300 digits.
    if int.bit_length(value) > MAX_INTEGER_BITS:
        raise Refusal(f"is an integer of more than {MAX_INTEGER_BITS} bits")
    return int.__int__(value)


def _number(_walk: _Walk, value: Any, _depth: int) -> Json:  # noqa: ANN401
    number = float.__float__(value)
    if not math.isfinite(number):
        raise Refusal("is not a finite number")
    return int(number) if number.is_integer() else number


def _list(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    walk.spend(list.__len__(value))
    return walk.members(cast("Iterable[object]", list.__iter__(value)), depth + 1)


def _tuple(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    kind = cast("Any", type(value))
    if hasattr(kind, "_fields"):
        walk.kinds.append(kind)
    walk.spend(tuple.__len__(value))
    return walk.members(cast("Iterable[object]", tuple.__iter__(value)), depth + 1)


def _dict(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    return walk.fields(cast("Iterable[tuple[object, object]]", dict.items(value)), depth)


def _set(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    by_text: dict[str, Json] = {}
    base: Any = set if issubclass(type(value), set) else frozenset
    try:
        for member in base.__iter__(value):
            plain = walk.plain(member, depth + 1)
            walk.spend(0)
            by_text[_ENCODER.encode(plain)] = plain
    except Exception as error:  # noqa: BLE001 - an object of the caller's own may raise anything
        raise _at(error, "[?]") from None
    walk.spend(len(by_text))
    return walk.tagged("set", [by_text[text] for text in sorted(by_text)])


def _enum(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    walk.kinds.append(cast("Any", type(value)))
    return walk.tagged("enum", walk.plain(value._value_, depth + 1))  # `value` may be overridden


def _leaf(leaf: Leaf) -> _Rule:
    def write(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
        name, text = leaf(value)
        return walk.tagged(name, _text(walk, text, depth))

    return write


_Rule = Callable[[_Walk, Any, int], Json]
# A type is looked for in this order: an enumeration may be text.
_RULES: tuple[tuple[type, _Rule], ...] = (
    (type(None), _word),
    (bool, _word),
    (str, _text),
    (int, _integer),
    (float, _number),
    (enum.Enum, _enum),
    (dict, _dict),
    (list, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _set),
    *((kind, _leaf(leaf)) for kind, leaf in LEAVES),
)
_BY_TYPE: dict[type, _Rule] = dict(_RULES)


def _by_shape(kind: Any) -> _Rule:  # noqa: ANN401
    if issubclass(kind, Mapping):
        return _mapping
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__"):
        return _record
    raise Refusal(f"is a {kind.__name__}, which has no canonical form")


def _mapping(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    def items() -> Iterator[tuple[object, object]]:
        for key in value:
            walk.spend(0)  # it may have no end
            yield key, value[key]

    return walk.fields(items(), depth)


def _record(walk: _Walk, value: Any, depth: int) -> Json:  # noqa: ANN401
    kind = cast("Any", type(value))
    walk.kinds.append(kind)
    if getattr(kind, "__pydantic_root_model__", False):
        return walk.plain(value.root, depth + 1)
    return walk.fields(_fields_of(value), depth)


def _fields_of(record: object) -> list[tuple[Any, Any]]:
    """The fields of a dataclass or pydantic model by name, with those that it lets in besides."""
    kind, holder = cast("Any", type(record)), cast("Any", record)
    if not hasattr(kind, "__dataclass_fields__"):
        held = holder.__dict__
        return [*((name, held[name]) for name in kind.__pydantic_fields__), *(holder.__pydantic_extra__ or {}).items()]
    names = [field.name for field in dataclasses.fields(holder)]
    besides: dict[str, object] = {}
    if getattr(kind, "__pydantic_config__", {}).get("extra") == "allow":
        besides = {name: held for name, held in holder.__dict__.items() if name not in names}
    return [*((name, getattr(holder, name)) for name in names), *besides.items()]
