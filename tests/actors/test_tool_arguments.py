"""Arguments are checked against the signature, and survive the way to the host."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
import pytest

from mycelium.actors.tool import tool
from mycelium.leases.errors import BadArgumentsError, PayloadTooLargeError, ToolDeclarationError


class Cabin(enum.Enum):
    ECONOMY = "economy"


class Fare(enum.StrEnum):
    FLEX = "flex"


@dataclasses.dataclass
class Seat:
    row: int
    note: bytes = b""


@tool(effect_class="keyed_mutate", key_param="key")
def book(  # type: ignore[no-untyped-def]
    copy: int,
    when: dt.datetime,
    key: str,
    schema: frozenset[int] = frozenset({1}),
    *,
    seat: Seat | None = None,
    bags: Annotated[int, pydantic.Field(gt=0)] = 1,
    price: decimal.Decimal = decimal.Decimal("1.10"),
    cabin: Cabin = Cabin.ECONOMY,
    fare: Literal["flex", "basic"] = "basic",
    weight: float = 1,
    anything=None,  # noqa: ANN001 # pyright: ignore[reportMissingParameterType] - unannotated means any JSON value
    sloppy: int = None,  # type: ignore[assignment]  # noqa: RUF013 - as people write it
) -> None:
    """Names that pydantic models also have, and most kinds of annotation."""


@tool(effect_class="read")
def plain(a: int, b: list[int], *, c: float = 1.5) -> None:
    """Little."""


@tool(effect_class="read")
def whatever(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Less than little."""


def test_values_survive_the_way_to_the_host() -> None:
    given = {
        "seat": Seat(3, b"\xff"),
        "bags": "2",
        "when": "2024-05-01T10:00:00",
        "copy": 1,
        "anything": [1, {"x": None}],
        "weight": 7,
    }
    wired = book.to_wire(given)
    there = book.from_wire(wired.body)
    assert there == wired.values
    assert there["seat"] == Seat(3, b"\xff")
    assert there["when"] == dt.datetime(2024, 5, 1, 10, 0)  # noqa: DTZ001 - naive as given
    assert (there["price"], there["cabin"], there["schema"]) == (decimal.Decimal("1.10"), Cabin.ECONOMY, {1})
    assert (there["bags"], there["sloppy"], there["copy"]) == (2, None, 1)


def test_defaults_and_spellings_make_no_difference() -> None:
    spelled = [plain.bind(1, [2]), plain.bind(b=[2], a=1), plain.bind(1, b=[2], c=1.5)]
    wired = [plain.to_wire(call.arguments) for call in spelled]
    assert {(one.args, one.body) for one in wired} == {(b'{"a":1,"b":[2],"c":1.5}',) * 2}
    assert plain.check((1,), {"b": [2.0]}).args == wired[0].args


def test_the_providers_key_is_no_part_of_the_meaning_and_is_filled_in() -> None:
    call = book.bind(1, dt.datetime(2024, 5, 1))  # type: ignore[call-arg]  # noqa: DTZ001 - naive as given
    wired = book.to_wire(call.arguments)
    assert "key" not in json.loads(wired.body)
    assert book.from_wire(wired.body, idempotency_key="e1")["key"] == "e1"
    with_key = book.to_wire({**call.arguments, "key": "mine"})
    assert with_key.args == wired.args
    assert json.loads(with_key.body)["key"] == "mine"
    assert book.from_wire(with_key.body, idempotency_key="e1")["key"] == "mine"


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({}, "a: Field required"),
        ({"a": "secret-1", "b": []}, "a: Input should be a valid integer"),
        ({"a": 1, "b": [1, "secret-1"]}, "b.1: Input should be a valid integer"),
        ({"a": 1, "b": [], "secret-1": 1}, "?: no such parameter (it has a, b, c)"),
        ({"a": 1, "b": [], "zzz": "secret-1"}, "?: no such parameter (it has a, b, c)"),
        ({"a": 1, "b": [], "c": float("nan")}, "c: Input should be a finite number"),
        ({"a": 1, "b": [], "c": float("inf")}, "c: Input should be a finite number"),
        ({"a": 1.5, "b": []}, "a: Input should be a valid integer"),
        ({1: 2}, "a: Field required"),
        ({"a": 1, "b": [], "\ud800": 1}, "as a unicode string"),
    ],
)
def test_what_does_not_fit_is_refused_by_parameter_and_rule_and_without_its_value(
    wrong: dict[str, object], words: str
) -> None:
    with pytest.raises(BadArgumentsError) as caught:
        plain.to_wire(wrong)
    assert words in str(caught.value)
    assert "secret-1" not in str(caught.value)
    str(caught.value).encode()


def test_many_faults_are_told_shortly() -> None:
    with pytest.raises(BadArgumentsError, match="and 996 more"):
        plain.to_wire({"a": 1, "b": ["x"] * 1001})


def test_a_validators_own_words_are_not_repeated() -> None:
    def refuse(value: str) -> str:
        message = f"{value} is no account"
        raise ValueError(message)

    def pay(account: Annotated[str, pydantic.AfterValidator(refuse)]) -> None:
        del account

    pay.__annotations__["account"] = Annotated[str, pydantic.AfterValidator(refuse)]
    with pytest.raises(BadArgumentsError, match=r"account: refused \(value error\)"):
        tool(effect_class="read")(pay).to_wire({"account": "DE-1"})


@pytest.mark.parametrize("value", [object(), {1: object()}, {1: 2}, float("nan"), 1j, iter("a"), "\ud800", 1 << 5000])
def test_what_has_no_canonical_form_is_refused_on_the_wire_and_in_this_process(value: object) -> None:
    given = {"copy": 1, "when": 0, "anything": value}
    with pytest.raises(BadArgumentsError, match="anything"):
        book.to_wire(given)
    with pytest.raises(BadArgumentsError, match="anything"):
        book.check((), given)


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(BadArgumentsError, match="nested deeper"):
        book.to_wire({"copy": 1, "when": 0, "anything": endless})


# ── what comes back ──────────────────────────────────────────────────────────────────────────────────────────────────


class Guest(pydantic.BaseModel):
    name: str = pydantic.Field(alias="guestName")
    born: dt.date | None = pydantic.Field(default=None, validation_alias="dateOfBirth")
    note: Any = None


class Vip(Guest):
    level: int = 1


class Corner(NamedTuple):
    x: int
    y: int


UNSTORABLE = [
    decimal.Decimal("1.50"),
    dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
    dt.date(2024, 5, 1),
    dt.time(10),
    dt.timedelta(1),
    b"x",
    {1},
    frozenset({1}),
    uuid.UUID(int=1),
    pathlib.Path("a"),
    pathlib.PureWindowsPath("a"),
    Cabin.ECONOMY,
    Seat(1),
    Guest(guestName="x"),
    Corner(1, 2),
]


def _itself(value: object) -> object:
    return value


def _inside(value: object) -> object:
    return [{"x": value}]


@pytest.mark.parametrize("value", UNSTORABLE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("wrap", [_itself, _inside])
def test_what_would_come_back_as_another_type_is_refused_on_the_wire_only(
    value: object, wrap: Callable[[object], object]
) -> None:
    told = "({!r} would come back|cannot be written as JSON).*Annotate the parameter"
    with pytest.raises(BadArgumentsError, match=told.format("value")):
        whatever.to_wire({"value": wrap(value)})
    with pytest.raises(BadArgumentsError, match=told.format("anything")):
        book.to_wire({"copy": 1, "when": 0, "anything": wrap(value)})
    checked = book.check((1, dt.datetime(2024, 5, 1)), {"anything": wrap(value)})  # noqa: DTZ001 - naive as given
    assert checked.values["anything"] == wrap(value)


@pytest.mark.parametrize(
    "value, back",
    [((1, (2,)), [1, [2]]), (Fare.FLEX, "flex"), (1.0, 1), ({"$decimal": "1"}, {"$decimal": "1"}), (10**40, 10**40)],
)
def test_what_is_equal_by_the_rule_comes_back_as_jsons_own_kind(value: object, back: object) -> None:
    wired = book.to_wire({"copy": 1, "when": 0, "anything": value})
    assert book.from_wire(wired.body)["anything"] == back
    assert book.check((1, 0), {"anything": back}).args == wired.args


@tool(effect_class="read")
def invite(
    guest: Guest,
    seats: tuple[Seat, ...] = (),
    *,
    due: dt.datetime | dt.date | None = None,
    cost: decimal.Decimal | str = "",
    corner: Corner | None = None,
    ids: set[uuid.UUID] = frozenset(),  # type: ignore[assignment]
    fares: dict[str, Fare] = {},  # noqa: B006
    odd: Annotated[object, pydantic.PlainSerializer(lambda _: 1)] = 1,
) -> None:
    """What is nested, and what may be one of several types."""


@pytest.mark.parametrize(
    "given",
    [
        {"guest": {"guestName": "Ann", "dateOfBirth": "2000-01-01"}},
        {"guest": Guest.model_construct(name="Ann", born=dt.date(2000, 1, 1), note={"$x": [1]})},
        {"guest": {"guestName": "Ann"}, "seats": [{"row": 1, "note": b"\xff"}, Seat(2)]},
        {"guest": {"guestName": "Ann"}, "due": dt.date(2024, 5, 1)},
        {"guest": {"guestName": "Ann"}, "due": dt.datetime(2024, 5, 1, 10, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))},
        {"guest": {"guestName": "Ann"}, "corner": (1, "2"), "fares": {"a": Fare.FLEX}},
        {"guest": {"guestName": "Ann"}, "ids": [str(uuid.UUID(int=1)), uuid.UUID(int=1), uuid.UUID(int=2)]},
    ],
)
def test_nested_and_typed_values_come_back_as_they_were(given: dict[str, Any]) -> None:
    wired = invite.to_wire(given)
    there = invite.from_wire(wired.body)
    assert there == wired.values
    assert invite.check((), there).args == wired.args


@pytest.mark.parametrize(
    "given, name",
    [
        ({"guest": Vip(guestName="Ann", level=2)}, "guest"),
        ({"guest": Vip(guestName="Ann")}, "guest"),
        ({"guest": Guest(guestName="Ann", note=decimal.Decimal(1))}, "guest"),
        ({"guest": {"guestName": "Ann"}, "odd": 2}, "odd"),
        ({"guest": {"guestName": "Ann"}, "cost": "1.5"}, "cost"),
    ],
)
def test_what_another_process_would_read_differently_is_refused(given: dict[str, Any], name: str) -> None:
    with pytest.raises(BadArgumentsError, match=f"{name!r} would come back from the ledger as another value or type"):
        invite.to_wire(given)
    invite.check((), given)


def test_a_field_is_known_by_its_name_whatever_its_alias() -> None:
    wired = invite.to_wire({"guest": {"guestName": "Ann"}})
    assert json.loads(wired.body)["guest"] == {"name": "Ann", "born": None, "note": None}
    assert json.loads(wired.args)["guest"] == {"name": "Ann", "born": None, "note": None}


def test_a_decimal_is_never_its_text() -> None:
    texts = [book.check((1, 0), {"anything": value}).args for value in (decimal.Decimal("1.5"), "1.5", 1.5)]
    assert len(set(texts)) == 3
    prices = [book.to_wire({"copy": 1, "when": 0, "price": value}).args for value in ("1.50", decimal.Decimal("1.5"))]
    assert len(set(prices)) == 1


def test_a_validator_that_changes_its_own_output_is_found_out() -> None:
    def add(value: int) -> int:
        return value + 1

    def count(n: int) -> None:
        del n

    count.__annotations__["n"] = Annotated[int, pydantic.AfterValidator(add)]
    counted = tool(effect_class="read")(count)
    with pytest.raises(BadArgumentsError, match="'n' would come back"):
        counted.to_wire({"n": 1})
    assert counted.check((1,), {}).values == {"n": 2}


def test_a_validator_may_raise_anything() -> None:
    def fail(value: int) -> int:
        raise KeyError("secret-1")

    def count(n: int) -> None:
        del n

    count.__annotations__["n"] = Annotated[int, pydantic.AfterValidator(fail)]
    with pytest.raises(BadArgumentsError, match=r"could not be checked \(KeyError\)") as caught:
        tool(effect_class="read")(count).to_wire({"n": 1})
    assert "secret-1" not in str(caught.value)


def test_one_pass_is_enough_where_nothing_can_change() -> None:
    def plainly(a: int, b: float | None, *, c: dict[str, list[int | str | None]], d: Literal["x"] | int) -> None: ...
    def typed(a: dt.date) -> None: ...
    def enumerated(a: Fare) -> None: ...
    def bound(a: Annotated[str, pydantic.StringConstraints(to_upper=True)]) -> None: ...
    def chosen(a: Annotated[str, pydantic.Field(max_length=2)] | list[str]) -> None: ...
    def ordered(a: Annotated[int | str, pydantic.Field(union_mode="left_to_right")]) -> None: ...
    def written(a: Annotated[int, pydantic.PlainSerializer(str)]) -> None: ...
    def modelled(a: Guest) -> None: ...

    assert tool(effect_class="read")(plainly)._arguments._plain
    assert whatever._arguments._plain
    assert plain._arguments._plain
    for fn in (typed, enumerated, bound, chosen, ordered, written, modelled):
        assert not tool(effect_class="read")(fn)._arguments._plain, fn.__name__


def test_a_limit_holds_for_what_is_stored_and_for_what_is_named() -> None:
    assert plain.to_wire({"a": 1, "b": []}, max_bytes=22).body == b'{"a":1,"b":[],"c":1.5}'
    with pytest.raises(PayloadTooLargeError):
        plain.to_wire({"a": 1, "b": []}, max_bytes=21)
    with pytest.raises(PayloadTooLargeError):
        plain.check((1, []), {}, max_bytes=21)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@tool(effect_class="read")
def greedy(  # noqa: PLR0917
    node: str,
    run_id: str,
    thread_id: str,
    request_id: str,
    tool_call_id: str,
    dispatch_id: str,
    step: int,
    scope: str,
    args: str,
    p0: str,
    p1: str,
) -> None:
    """A tool whose own parameters are called as ours are."""


def test_a_tools_own_parameters_reach_it_whatever_they_are_called() -> None:
    given = {name: name for name in greedy.signature.parameters} | {"step": 3}
    wired = greedy.to_wire(greedy.bind(**given).arguments)  # type: ignore[arg-type]
    assert greedy.from_wire(wired.body) == given
    assert json.loads(wired.args) == given
    assert greedy.check((), given).values == given


def test_a_key_that_is_left_out_is_not_taken_from_a_parameter_of_another_name() -> None:
    @tool(effect_class="keyed_mutate", key_param="key")
    def send(key: str, p0: str, p1: str) -> None:
        """A name that a model of ours might have used."""

    wired = send.to_wire({"p0": "a", "p1": "b"})
    assert send.from_wire(wired.body) == {"p0": "a", "p1": "b"}


def test_a_parameter_has_one_name() -> None:
    def pay(
        amount: Annotated[int, pydantic.Field(alias="sum", validation_alias="total", serialization_alias="all")],
    ) -> None:
        del amount

    paid = tool(effect_class="read")(pay)
    assert paid.from_wire(paid.to_wire({"amount": 1}).body) == {"amount": 1}
    with pytest.raises(BadArgumentsError):
        paid.to_wire({"total": 1})


class Shop:
    def __init__(self, account: str) -> None:
        self.account = account

    def charge(self, order: str) -> str:
        return f"{self.account} {order}"


def test_a_bound_method_is_a_tool_and_its_object_is_no_argument() -> None:
    tools = [tool(effect_class="read")(Shop(account).charge) for account in ("a", "b")]
    wired = [charge.to_wire({"order": "ORD-1"}) for charge in tools]
    assert {one.args for one in wired} == {b'{"order":"ORD-1"}'}
    assert [charge.fn(**charge.from_wire(wired[0].body)) for charge in tools] == ["a ORD-1", "b ORD-1"]


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(ToolDeclarationError, match=r"'charge' is a method without its object.*declare a bound one"):
        tool(effect_class="read")(Shop.charge)


def test_arguments_are_not_in_a_repr() -> None:
    wired = plain.to_wire({"a": 4111, "b": []})
    assert "4111" not in repr(wired)
    assert "4111" not in repr(plain.check((4111, []), {}))


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b'{"a":1}', b'{"a":1,"b":[],"c":NaN}'])
def test_a_stored_body_that_does_not_fit_is_refused(body: bytes) -> None:
    with pytest.raises(BadArgumentsError):
        plain.from_wire(body)


def var(*a: int) -> None: ...
def keywords(**a: int) -> None: ...
def only_positional(a: int, /) -> None: ...
def unresolved(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def bad_default(a: int = "x") -> None: ...  # type: ignore[assignment]
def object_default(a: Any = object()) -> None: ...  # noqa: ANN401, B008 - that is the point
def secret(a: pydantic.SecretStr | None = None) -> None: ...


@pytest.mark.parametrize("fn", [var, keywords, only_positional, unresolved, bad_default, object_default, secret])
def test_a_signature_that_cannot_be_stored_is_refused_at_declaration(fn: Callable[..., None]) -> None:
    with pytest.raises(ToolDeclarationError, match=fn.__name__):
        tool(effect_class="read")(fn)
