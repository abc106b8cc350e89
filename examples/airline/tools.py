"""The airline's 14 tools: reads may run again at will, and no write is repeated by guess.

The airline does not de-duplicate: each dispatch of a write is a new effect. The writes are therefore declared
`non_idempotent_mutate`, and carry an adapter that looks up what became of one whose answer never came.
`mycelium-worker mycelium.examples.airline.tools` runs them; `AIRLINE_URL` says where the airline is.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from ...actors.context import current_call
from ...actors.tool import tool
from ...leases.errors import NotExecuted
from .http_client import OK, SERVER_FAULT, airline
from .lookup import AirlineLookup

TIMEOUT_S = 10.0

_read = tool(effect_class="read", timeout_s=TIMEOUT_S)
_write = tool(effect_class="non_idempotent_mutate", timeout_s=TIMEOUT_S, reconciler=AirlineLookup())


class Leg(BaseModel):
    """One flight of an itinerary."""

    model_config = ConfigDict(extra="forbid")
    flight_number: str
    date: str


class Passenger(BaseModel):
    """Who flies."""

    model_config = ConfigDict(extra="forbid")
    first_name: str
    last_name: str
    dob: str


class Payment(BaseModel):
    """What is paid with one payment method, in whole dollars."""

    model_config = ConfigDict(extra="forbid")
    payment_id: str
    amount: int


async def _ask(name: str, **arguments: object) -> str:
    """Send the running call to the airline.

    Raises:
        NotExecuted: the airline refused it, which it documents as "not done".
        RuntimeError: the airline failed; whether before or after doing it, nobody here knows.
    """
    plain = {parameter: to_jsonable_python(value) for parameter, value in arguments.items()}
    answer = await airline().call(name, plain, current_call().idempotency_key)
    if answer.status >= SERVER_FAULT:
        message = f"the airline answered {answer.status}"
        raise RuntimeError(message)
    if answer.status != OK:
        raise NotExecuted(answer.text)
    return answer.text


# ── reads ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@_read
async def get_user_details(user_id: str) -> str:
    """The profile of a customer."""
    return await _ask("get_user_details", user_id=user_id)


@_read
async def get_reservation_details(reservation_id: str) -> str:
    """One booking."""
    return await _ask("get_reservation_details", reservation_id=reservation_id)


@_read
async def list_all_airports() -> str:
    """Every airport and its city."""
    return await _ask("list_all_airports")


@_read
async def search_direct_flight(origin: str, destination: str, date: str) -> str:
    """Flights without a stop."""
    return await _ask("search_direct_flight", origin=origin, destination=destination, date=date)


@_read
async def search_onestop_flight(origin: str, destination: str, date: str) -> str:
    """Flights with one stop."""
    return await _ask("search_onestop_flight", origin=origin, destination=destination, date=date)


@_read
async def think(thought: str) -> str:
    """The model's note to itself."""
    return await _ask("think", thought=thought)


@_read
async def calculate(expression: str) -> str:
    """Arithmetic."""
    return await _ask("calculate", expression=expression)


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@_write
async def book_reservation(  # noqa: PLR0913, PLR0917 - the recorded calls have these arguments
    user_id: str,
    origin: str,
    destination: str,
    flight_type: str,
    cabin: str,
    flights: list[Leg],
    passengers: list[Passenger],
    payment_methods: list[Payment],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: str,
) -> str:
    """Book and pay."""
    return await _ask(
        "book_reservation",
        user_id=user_id,
        origin=origin,
        destination=destination,
        flight_type=flight_type,
        cabin=cabin,
        flights=flights,
        passengers=passengers,
        payment_methods=payment_methods,
        total_baggages=total_baggages,
        nonfree_baggages=nonfree_baggages,
        insurance=insurance,
    )


@_write
async def cancel_reservation(reservation_id: str) -> str:
    """Cancel a booking and refund it."""
    return await _ask("cancel_reservation", reservation_id=reservation_id)


@_write
async def update_reservation_flights(reservation_id: str, cabin: str, flights: list[Leg], payment_id: str) -> str:
    """Change flights or cabin, and pay or refund the difference."""
    return await _ask(
        "update_reservation_flights",
        reservation_id=reservation_id,
        cabin=cabin,
        flights=flights,
        payment_id=payment_id,
    )


@_write
async def update_reservation_baggages(
    reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> str:
    """Add bags, and pay for them."""
    return await _ask(
        "update_reservation_baggages",
        reservation_id=reservation_id,
        total_baggages=total_baggages,
        nonfree_baggages=nonfree_baggages,
        payment_id=payment_id,
    )


@_write
async def update_reservation_passengers(reservation_id: str, passengers: list[Passenger]) -> str:
    """Correct who flies."""
    return await _ask("update_reservation_passengers", reservation_id=reservation_id, passengers=passengers)


@_write
async def send_certificate(user_id: str, amount: int) -> str:
    """Give a customer a certificate, in whole dollars."""
    return await _ask("send_certificate", user_id=user_id, amount=amount)


@_write
async def transfer_to_human_agents(summary: str) -> str:
    """Hand the customer over to a person."""
    return await _ask("transfer_to_human_agents", summary=summary)
