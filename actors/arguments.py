"""Checks a call's arguments against the tool's signature, and carries them to the host and back as JSON."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping

import pydantic
from pydantic_core import core_schema

from ..leases.errors import BadArgumentsError, ToolDeclarationError

# Of these the message is the author's own, or quotes what was given.
_QUOTING_RULES = {"value_error", "assertion_error", "union_tag_invalid", "uuid_parsing"}
_RULES_WITHOUT_VALUES = set(typing.get_args(core_schema.ErrorType)) - _QUOTING_RULES
_SHOWN_CHARS = 64
_SHOWN_FAULTS = 5
_NOTHING_SUBMITTED = "Nothing was dispatched. Correct the call."
_CONFIG = pydantic.ConfigDict(
    extra="forbid",
    allow_inf_nan=False,
    arbitrary_types_allowed=True,
    populate_by_name=False,
    ser_json_bytes="base64",
    # As `null` they would be another value: kept as they are, they are refused where the call gets its canonical form.
    ser_json_inf_nan="constants",
    val_json_bytes="base64",
    validate_default=True,
)


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
        if key_param is not None and key_param not in signature.parameters:
            raise self._declaration(f"names key_param={key_param!r}, which is no parameter of it")
        self._names = tuple(signature.parameters)
        self._signature = self._with_optional_key(signature)
        self._model = self._build(signature, self._hints(fn))

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters in the order of the signature."""
        return self._names

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Give positional and keyword arguments their names; defaults stay out.

        Raises:
            BadArgumentsError: they do not fit the signature.
        """
        try:
            return dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            what = f"The call of {self._tool!r}: {_text(str(error))}."
            raise BadArgumentsError(what, next_step=_NOTHING_SUBMITTED) from None

    def validate(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Check arguments and fill in defaults.

        Returns:
            Python values by parameter name. The key parameter is there only if it was given.

        Raises:
            BadArgumentsError: the arguments do not fit; the message names the parameter and the rule, never the value.
        """
        return self._values(self._check(arguments))

    def to_wire(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Check arguments, fill in defaults, and turn them into JSON values.

        Raises:
            BadArgumentsError: as `validate`, or a value cannot be written as JSON.
        """
        model = self._check(arguments)
        try:
            dumped = model.model_dump(mode="json", by_alias=True, warnings=False)
        except (ValueError, TypeError, RecursionError) as error:
            what = f"The call of {self._tool!r}: a value cannot be written as JSON ({type(error).__name__})."
            raise BadArgumentsError(what, next_step=_NOTHING_SUBMITTED) from None
        return {name: dumped[name] for name in self._values(model)}

    def from_wire(self, body: bytes) -> dict[str, object]:
        """Read what `to_wire` gave, encoded as JSON.

        Raises:
            BadArgumentsError: the body is not a JSON object, or does not fit the signature.
        """
        try:
            return self._values(self._model.model_validate_json(body))
        except pydantic.ValidationError as error:
            raise BadArgumentsError(self._faults(error), next_step=_NOTHING_SUBMITTED) from None

    def _values(self, model: pydantic.BaseModel) -> dict[str, object]:
        values = dict(zip(self._names, model.__dict__.values(), strict=True))  # fields are in the signature's order
        if self._key_param is not None and values[self._key_param] is None:
            del values[self._key_param]
        return values

    def _check(self, arguments: Mapping[str, object]) -> pydantic.BaseModel:
        try:
            return self._model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            raise BadArgumentsError(self._faults(error), next_step=_NOTHING_SUBMITTED) from None

    def _faults(self, error: pydantic.ValidationError) -> str:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{_path(fault['loc'])}: {_rule(fault['type'], fault['msg'])}" for fault in faults[:_SHOWN_FAULTS]]
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        return f"The call of {self._tool!r} does not fit its signature: {'; '.join(told)}{more}."

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
        fields: dict[str, tuple[object, object]] = {}
        for at, (name, parameter) in enumerate(signature.parameters.items()):
            hint = hints.get(name, typing.Any)
            self._check_secret(name, hint)
            fields[_field(at)] = self._field(name, hint, parameter.default)
        build = typing.cast("Callable[..., type[pydantic.BaseModel]]", pydantic.create_model)
        try:
            return build(f"Arguments_{self._tool}", __config__=_CONFIG, **fields)
        except Exception as error:
            raise self._declaration(f"has an annotation that cannot be checked ({type(error).__name__})") from error

    def _field(self, name: str, hint: object, default: object) -> tuple[object, object]:
        if name == self._key_param:
            return typing.Optional[hint], pydantic.Field(default=None, alias=name)  # noqa: UP045 - built from a value
        if default is inspect.Parameter.empty:
            return hint, pydantic.Field(alias=name)
        if default is None:
            return typing.Optional[hint], pydantic.Field(default=None, alias=name)  # noqa: UP045 - built from a value
        self._check_default(name, hint, default)
        return hint, pydantic.Field(default=default, alias=name)

    def _check_default(self, name: str, hint: object, default: object) -> None:
        try:
            adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(typing.cast("typing.Any", hint))
            adapter.dump_python(adapter.validate_python(default), mode="json", warnings=False)
        except Exception as error:
            raise self._declaration(f"has a default for {name!r} that does not fit, or is not JSON") from error

    def _check_secret(self, name: str, hint: object) -> None:
        if any(kind in {pydantic.SecretStr, pydantic.SecretBytes} for kind in (hint, *typing.get_args(hint))):
            fault = f"takes the secret {name!r}: arguments are stored in the ledger; read secrets from the environment"
            raise self._declaration(fault)


def _field(at: int) -> str:
    return f"p{at}"


def _path(loc: tuple[int | str, ...]) -> str:
    parts = [str(part) for part in loc if isinstance(part, int) or part.isidentifier()]
    return _text(".".join(parts))[:_SHOWN_CHARS] or "arguments"


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _rule(kind: str, message: str) -> str:
    return message if kind in _RULES_WITHOUT_VALUES else f"refused ({kind.replace('_', ' ')})"
