"""Checks a call's arguments against the tool's signature, names them, and carries them to the host and back as JSON."""

from __future__ import annotations

import inspect
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pydantic
from pydantic_core import ErrorDetails, core_schema

from ..leases.errors import BadArgumentsError, MyceliumError, ToolDeclarationError
from ..ledger.canon import DEFAULT_MAX_ARGS_BYTES, Encoded, encode, json_body
from .plain_schema import is_plain
from .schema_nodes import chooses_records, field_names

# Of these the message is the author's own, is that of an exception of the caller's, or quotes what was given.
_QUOTING_RULES = {
    "assertion_error",
    "bytes_invalid_encoding",
    "datetime_object_invalid",
    "get_attribute_error",
    "iteration_error",
    "mapping_type",
    "no_such_attribute",
    "timezone_offset",
    "union_tag_invalid",
    "uuid_parsing",
    "value_error",
}
_RULES_WITHOUT_VALUES = set(typing.get_args(core_schema.ErrorType)) - _QUOTING_RULES
_UNLIMITED = 1 << 62  # for what was measured before
_SHOWN_CHARS = 64
_SHOWN_FAULTS = 5
_SHOWN_INDEX = 99_999  # what is larger may be a key, such as the number of a card
_RECEIVERS = {"self", "cls"}
_UNBOUND = "is a method without its object, which cannot be stored: declare a bound one, as in tool(…)(shop.charge)"
_ANNOTATE = "Nothing was dispatched. Annotate the parameter with the type of what it is given."
_TELL_APART = "Nothing was dispatched. Annotate the classes with a field that names the kind, such as a Literal."
_NOTHING_SUBMITTED = "Nothing was dispatched. Correct the call."
_CONFIG = pydantic.ConfigDict(
    extra="forbid",
    allow_inf_nan=False,
    arbitrary_types_allowed=True,
    populate_by_name=False,
    ser_json_bytes="base64",
    # As `null` they would be another value.
    ser_json_inf_nan="constants",
    val_json_bytes="base64",
    validate_default=True,
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A call's arguments after validation and defaults.

    Attributes:
        values: Python values by parameter name. The provider's key is there only if the caller gave it.
        args: their canonical form, without the provider's key: what the identity is made of.
        body: their JSON that another process reads back as the same values; empty: there is none.
    """

    values: dict[str, object]
    args: bytes
    body: bytes = b""

    def __repr__(self) -> str:
        # Arguments may be secrets of the caller's, and a repr ends up in logs.
        return f"<checked arguments: {', '.join(self.values) or 'none'}>"


@dataclass(frozen=True, slots=True, repr=False)
class Wired(Checked):
    """Checked arguments that another process can read back: there is a body."""


class Arguments:
    """The parameters of one tool as a checked model.

    Args:
        tool: the tool's name, for messages.
        fn: the function whose parameters these are.
        key_param: the parameter that the runtime fills with the provider's idempotency key, or None.

    Raises:
        ToolDeclarationError: a parameter cannot be carried by name, its annotation cannot be resolved or checked, its
            default does not fit, or `key_param` names no parameter.
    """

    def __init__(self, tool: str, fn: Callable[..., object], *, key_param: str | None) -> None:
        self._tool = tool
        self._key_param = key_param
        signature = inspect.signature(fn)
        for parameter in signature.parameters.values():
            self._check_kind(parameter)
        if next(iter(signature.parameters), None) in _RECEIVERS:
            raise self._declaration(_UNBOUND)
        if key_param is not None and key_param not in signature.parameters:
            raise self._declaration(f"names key_param={key_param!r}, which is no parameter of it")
        self._names = tuple(signature.parameters)
        self._signature = self._with_optional_key(signature)
        hints = self._hints(fn)
        given = {name: hints[name] for name in self._names if name in hints}
        self._model = self._build(signature, given)
        schema = self._model.__pydantic_core_schema__
        self._plain = is_plain(schema)
        self._known = field_names(schema) | set(self._names)
        self._choices = _record_choices(given) if not self._plain and chooses_records(schema) else {}

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in the order of the signature."""
        return self._names

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Give positional and keyword arguments their names; defaults stay out.

        Raises:
            BadArgumentsError: they do not fit the signature.
        """
        if any(name not in self._names for name in kwargs):
            what = f"The call of {self._tool!r} has an argument that is no parameter of it{self._parameters()}."
            raise BadArgumentsError(what, next_step=_NOTHING_SUBMITTED)
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            what = f"The call of {self._tool!r}: {_text(str(error))}."
            raise BadArgumentsError(what, next_step=_NOTHING_SUBMITTED) from None

    def check(self, arguments: Mapping[str, object], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> Checked:
        """Check arguments and fill in defaults, for a call that this process runs itself.

        Args:
            arguments: what the caller gave, by parameter name.
            max_bytes: the limit on the canonical form.

        Raises:
            BadArgumentsError: the arguments do not fit, or one has no canonical form, or is a record that only its
                class tells from another; the message names the parameter and the rule, never the value.
            PayloadTooLargeError: they are above the limit.
        """
        model = self._check(arguments)
        values = self._values(model)
        self._check_choices(values)
        encoded = encode(values, max_bytes=max_bytes)
        try:
            body = encoded.text if self._plain and encoded.is_json else self._body(model, values, encoded, max_bytes)
        except BadArgumentsError:
            body = b""  # it runs here, with the values as they are
        return Checked(values, self._meaningful(values, encoded, max_bytes), body)

    def to_wire(self, arguments: Mapping[str, object], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES) -> Wired:
        """Check arguments, fill in defaults, and write them as JSON that reads back as the same values.

        Args:
            arguments: what the caller gave, by parameter name.
            max_bytes: the limit on the canonical form and on the JSON.

        Raises:
            BadArgumentsError: as `check`; or a value would come back as something else, such as a Decimal for a
                parameter without annotation.
            PayloadTooLargeError: they are above the limit.
        """
        model = self._check(arguments)
        values = self._values(model)
        encoded = encode(values, max_bytes=max_bytes)
        # Plain values of plain types come back as they are: that is most calls, and a submit is on the hot path.
        body = encoded.text if self._plain and encoded.is_json else self._body(model, values, encoded, max_bytes)
        return Wired(values, self._meaningful(values, encoded, max_bytes), body)

    def from_wire(self, body: bytes) -> dict[str, object]:
        """Read what `to_wire` gave as body.

        Raises:
            BadArgumentsError: the body is not a JSON object, or does not fit the signature.
        """
        try:
            # By field name, since that is how nested models are stored; the parameters' own names are aliases.
            return self._values(self._model.model_validate_json(body, by_alias=True, by_name=True))
        except pydantic.ValidationError as error:
            raise BadArgumentsError(self._faults(error), next_step=_NOTHING_SUBMITTED) from None

    def _meaningful(self, values: Mapping[str, object], encoded: Encoded, max_bytes: int) -> bytes:
        # A provider's key that the caller chose is sent along, and takes no part in what the effect is.
        if self._key_param not in values:
            return encoded.text
        rest = {name: value for name, value in values.items() if name != self._key_param}
        return encode(rest, max_bytes=max_bytes).text

    def _body(self, model: pydantic.BaseModel, values: Mapping[str, object], encoded: Encoded, max_bytes: int) -> bytes:
        try:
            dumped = model.model_dump(mode="json", by_alias=False, round_trip=True, warnings=False)
        except Exception as error:  # noqa: BLE001 - a serializer of the caller's own may raise anything
            what = f"The call of {self._tool!r}: a value cannot be written as JSON ({type(error).__name__})."
            raise BadArgumentsError(what, next_step=_ANNOTATE) from None
        by_name = dict(zip(self._names, dumped.values(), strict=True))
        body = json_body({name: by_name[name] for name in values}, max_bytes=max_bytes)
        self._check_return(values, encoded, body)
        return body

    def _check_choices(self, values: Mapping[str, object]) -> None:
        """Records of a union that only their classes tell apart would be one call: as on the wire, one is refused."""
        for name, model in self._choices.items():
            if name in values and _is_taken_for_another(values[name], model):
                what = f"The call of {self._tool!r}: the argument for {name!r} is told from another by its class alone."
                raise BadArgumentsError(what, next_step=_TELL_APART)

    def _check_return(self, values: Mapping[str, object], encoded: Encoded, body: bytes) -> None:
        """Whether the tool gets what was named: K1 holds for what it is given, not for what was said to be given."""
        try:
            back = self.from_wire(body)
            read = encode(back, max_bytes=_UNLIMITED)
        except Exception:  # noqa: BLE001 - a validator of the caller's own may raise anything
            back, read = {}, None
        if read is not None and _alike(read, encoded):
            return
        lost = [name for name, value in values.items() if not _same(value, back.get(name))]
        which = f"the argument for {lost[0]!r}" if back and lost else "an argument"
        what = f"The call of {self._tool!r}: {which} would come back from the ledger as another value or type."
        raise BadArgumentsError(what, next_step=_ANNOTATE)

    def _values(self, model: pydantic.BaseModel) -> dict[str, object]:
        values = dict(zip(self._names, model.__dict__.values(), strict=True))  # fields are in the signature's order
        # An empty key would be none to its provider, and be taken for one here.
        if self._key_param is not None and not values[self._key_param]:
            del values[self._key_param]
        return values

    def _check(self, arguments: Mapping[str, object]) -> pydantic.BaseModel:
        try:
            return self._model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            raise BadArgumentsError(self._faults(error), next_step=_NOTHING_SUBMITTED) from None
        except Exception as error:  # noqa: BLE001 - a validator or an object of the caller's own may raise anything
            what = f"The call of {self._tool!r}: an argument could not be checked ({type(error).__name__})."
            raise BadArgumentsError(what, next_step=_NOTHING_SUBMITTED) from None

    def _faults(self, error: pydantic.ValidationError) -> str:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{self._path(fault['loc'])}: {self._rule(fault)}" for fault in faults[:_SHOWN_FAULTS]]
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        return f"The call of {self._tool!r} does not fit its signature: {'; '.join(told)}{more}."

    def _path(self, loc: tuple[int | str, ...]) -> str:
        # A key may be a card number or an address: only what the signature names is told.
        shown = (part <= _SHOWN_INDEX if isinstance(part, int) else part in self._known for part in loc)
        path = ".".join(str(part) if told else "?" for part, told in zip(loc, shown, strict=True))
        return path[:_SHOWN_CHARS] or "arguments"

    def _rule(self, fault: ErrorDetails) -> str:
        kind = fault["type"]
        if kind == "extra_forbidden" and len(fault["loc"]) == 1:
            return f"no such parameter{self._parameters()}"
        return fault["msg"] if kind in _RULES_WITHOUT_VALUES else f"refused ({kind.replace('_', ' ')})"

    def _parameters(self) -> str:
        return f" (it has {', '.join(self._names)})" if self._names else " (it has none)"

    def _declaration(self, fault: str) -> ToolDeclarationError:
        what = f"The tool {self._tool!r} {fault}."
        return ToolDeclarationError(what, next_step="Correct the declaration of the tool.")

    def _check_kind(self, parameter: inspect.Parameter) -> None:
        if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            raise self._declaration(f"takes {parameter}: a call is stored by parameter name, so each must be declared")
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise self._declaration(f"has the positional-only parameter {parameter.name!r}: a call is stored by name")

    def _with_optional_key(self, signature: inspect.Signature) -> inspect.Signature:
        # What follows the key may have no default, so the key moves behind it and is given by name.
        key = self._key_param
        if key is None or signature.parameters[key].default is not inspect.Parameter.empty:
            return signature
        lone = signature.parameters[key].replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
        others = [parameter for name, parameter in signature.parameters.items() if name != key]
        return signature.replace(parameters=[*others, lone])

    def _hints(self, fn: Callable[..., object]) -> dict[str, object]:
        try:
            return dict(typing.get_type_hints(fn, include_extras=True))
        except Exception as error:
            fault = f"has an annotation that cannot be resolved ({error}); its names must be importable at module level"
            raise self._declaration(fault) from error

    def _build(self, signature: inspect.Signature, hints: Mapping[str, object]) -> type[pydantic.BaseModel]:
        # Fields are numbered and the real names are aliases: a parameter may be called `copy`, `schema` or `_x`.
        prefix = "p"
        while any(name.startswith(prefix) for name in self._names):
            prefix += "p"
        fields: dict[str, tuple[object, object]] = {}
        for at, (name, parameter) in enumerate(signature.parameters.items()):
            hint = hints.get(name, typing.Any)
            self._check_secret(name, hint)
            fields[f"{prefix}{at}"] = self._field(name, hint, parameter.default)
        build = typing.cast("Callable[..., type[pydantic.BaseModel]]", pydantic.create_model)
        try:
            return build(f"Arguments_{self._tool}", __config__=_CONFIG, **fields)
        except Exception as error:
            raise self._declaration(f"has an annotation that cannot be checked ({type(error).__name__})") from error

    def _field(self, name: str, hint: object, default: object) -> tuple[object, object]:
        if name == self._key_param or default is None:
            return typing.Optional[hint], pydantic.Field(default=None, alias=name)  # noqa: UP045 - built from a value
        if default is inspect.Parameter.empty:
            return hint, pydantic.Field(alias=name)
        self._check_default(name, hint, default)
        return hint, pydantic.Field(default=default, alias=name)

    def _check_default(self, name: str, hint: object, default: object) -> None:
        try:
            with warnings.catch_warnings():
                # A parameter has one name: an alias on it is not looked at, here as in the model.
                warnings.simplefilter("ignore", UserWarning)
                adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(typing.cast("typing.Any", hint))
            adapter.dump_python(adapter.validate_python(default), mode="json", warnings=False)
        except Exception as error:
            raise self._declaration(f"has a default for {name!r} that does not fit, or is not JSON") from error

    def _check_secret(self, name: str, hint: object) -> None:
        if any(kind in {pydantic.SecretStr, pydantic.SecretBytes} for kind in (hint, *typing.get_args(hint))):
            fault = f"takes the secret {name!r}: arguments are stored in the ledger; read secrets from the environment"
            raise self._declaration(fault)


def _same(one: object, other: object) -> bool:
    try:
        return _alike(encode(one, max_bytes=_UNLIMITED), encode(other, max_bytes=_UNLIMITED))
    except MyceliumError:
        return False


def _record_choices(hints: Mapping[str, object]) -> dict[str, type[pydantic.BaseModel]]:
    build = typing.cast("Callable[..., type[pydantic.BaseModel]]", pydantic.create_model)
    models = {name: build("Choice", __config__=_CONFIG, value=(hint, ...)) for name, hint in hints.items()}
    return {name: model for name, model in models.items() if chooses_records(model.__pydantic_core_schema__)}


def _is_taken_for_another(value: object, model: type[pydantic.BaseModel]) -> bool:
    try:
        body = model.model_construct(value=value).model_dump_json(by_alias=False, round_trip=True, warnings=False)
        read: object = model.model_validate_json(body, by_alias=True, by_name=True).__dict__["value"]
        back, given = encode(read, max_bytes=_UNLIMITED), encode(value, max_bytes=_UNLIMITED)
    except Exception:  # noqa: BLE001 - a validator or serializer of the caller's own may raise anything
        return False
    return given.text == back.text and not _alike(given, back)


def _alike(one: Encoded, other: Encoded) -> bool:
    # A set meets its members in any order.
    return one.text == other.text and (one.kinds == other.kinds or Counter(one.kinds) == Counter(other.kinds))


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
