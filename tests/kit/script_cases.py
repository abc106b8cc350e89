"""What a case of a script is: a call for one of its reply words, with what stands before it; `every_script` has all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kit.ledger import Ledger
from mycelium.leases.scripts import Command

AUTO, OWN, READ = "non_idempotent_mutate-automatic", "non_idempotent_mutate-explicit", "read-none"
KEYED, IDEM = "keyed_mutate-automatic", "idempotent_mutate-automatic"

Make = Callable[[Ledger], Command]


@dataclass(frozen=True, slots=True)
class Case:
    """One call.

    Attributes:
        script: its name in the registry.
        words: the reply words that it must answer with, in order.
        make: brings the ledger there, and gives the call.
        refusal: it changes nothing but counts of calls and noted facts.
        second: the words of the same call sent again, where they differ, and why that is right.
    """

    script: str
    words: tuple[str, ...]
    make: Make
    refusal: bool = False
    second: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        return f"{self.script.rpartition('/')[2]}-{'-'.join(self.words)}"


CASES: list[Case] = []


def case(package: str, words: str, *, refusal: bool = False, second: str | None = None) -> Callable[[Make], Make]:
    """Add what a function brings about; it is called after the script, as in `_turn__late`."""

    def add(make: Make) -> Make:
        name = make.__name__.removeprefix("_").partition("__")[0]
        again = None if second is None else tuple(second.split())
        CASES.append(Case(f"mycelium.{package}/{name}", tuple(words.split()), make, refusal, again))
        return make

    return add
