"""Every key that this product writes, by name; `lua/lib/keys.lua` is the same list for the scripts.

All keys of a namespace share one hash tag, so that a cluster keeps them in one slot and a script may build the keys
that it cannot know beforehand from the tag, which is its only entry in KEYS.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import SettingsError

_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")

PERMANENT = (
    *("meta", "counters", "states", "events", "tools", "sessions", "delayed", "unknown", "expiring"),
    *("line", "rota", "waiting", "aging", "queues", "paused", "strikes", "gate", "gates", "full", "running"),
    *("receipts", "receipted", "schedules"),
)
"""Keys that have no TTL by design: bounded by a cap, by what is declared or by the open jobs; receipts by people."""

OPEN_ONLY = ("row", "args", "held", "session", "asked", "share", "ticket", "aliases")
"""Keys that have no TTL while their transition or session is open, and one from the moment it ends."""

ENDED = ("result", "rate", "rested", "tree")
"""Keys that always have a TTL."""


@dataclass(frozen=True, slots=True)
class Keyspace:
    """Names the keys of one namespace.

    Raises:
        SettingsError: the namespace is not 1 to 64 of `a-z 0-9 _ . -`, beginning with a letter or digit.
    """

    namespace: str = "mycelium"

    def __post_init__(self) -> None:
        """Refuse a namespace that would break the hash tag or a glob."""
        if not _NAMESPACE.fullmatch(self.namespace):
            what = f"{self.namespace!r} is not a namespace."
            raise SettingsError(what, next_step="Use 1 to 64 of a-z, 0-9, '_', '.', '-', a letter or digit first.")

    @property
    def tag(self) -> str:
        """The prefix of every key, and the whole of KEYS for each script."""
        return "{" + self.namespace + "}"

    def meta(self) -> str:
        """Hash: epoch, run_id, fence, seq, schema, followed: what the data set knows of itself."""
        return self.tag + ":meta"

    def counters(self) -> str:
        """Hash: fleet counters, each incremented by the script that makes the transition."""
        return self.tag + ":counters"

    def states(self) -> str:
        """Hash: how many transitions stand in each state."""
        return self.tag + ":states"

    def events(self) -> str:
        """Capped stream: one entry a script call that moved something, with a gap-free sequence number."""
        return self.tag + ":events"

    def tools(self) -> str:
        """Hash: tool name to the descriptor that the last worker published."""
        return self.tag + ":tools"

    def schedules(self) -> str:
        """Hash: a schedule's name and rule to how far it has come, and the last due time that has a job."""
        return self.tag + ":schedules"

    def sessions(self) -> str:
        """Sorted set: session id by the deadline of its lease, in server milliseconds."""
        return self.tag + ":sessions"

    def session(self, session_id: str) -> str:
        """Hash: who the holder is, and the last turn of each lane."""
        return f"{self.tag}:session:{session_id}"

    def tree(self, session_id: str) -> str:
        """Hash: how the actors of the session's worker stood when it last told, for people."""
        return f"{self.tag}:tree:{session_id}"

    def held(self, session_id: str) -> str:
        """Hash: request id to fence, for every transition that the session holds."""
        return f"{self.tag}:held:{session_id}"

    def line(self, line: str) -> str:
        """Sorted set: ids of ready rows of one queue, priority, tool and tenant, by their order."""
        return f"{self.tag}:line:{line}"

    def rota(self, shelf: str) -> str:
        """Sorted set: tenants of one queue, priority and tool that have a line, by the round in which each is next."""
        return f"{self.tag}:rota:{shelf}"

    def rested(self, shelf: str) -> str:
        """Sorted set: tenants whose other rows wait under keys, by the round before which they are not next again."""
        return f"{self.tag}:rested:{shelf}"

    def waiting(self, queue: str) -> str:
        """Hash: `level:tool` to how many rows stand in the lines of a queue."""
        return f"{self.tag}:waiting:{queue}"

    def aging(self, queue: str) -> str:
        """Hash: level to how often it was passed over since it was served last."""
        return f"{self.tag}:aging:{queue}"

    def queues(self) -> str:
        """Set: queues that jobs have waited in."""
        return self.tag + ":queues"

    def paused(self) -> str:
        """Hash: `queue:name` or `tool:name` to who paused it, when and why."""
        return self.tag + ":paused"

    def strikes(self) -> str:
        """Hash: `tool:facet` to who struck what, when and why: jobs with that argument stay ready."""
        return self.tag + ":strikes"

    def gate(self, gate: str) -> str:
        """Sorted set: ids of ready rows that wait for room under one key, by their order in the line."""
        return f"{self.tag}:gate:{gate}"

    def gates(self) -> str:
        """Sorted set: gates that time opens, by the server millisecond at which to look."""
        return self.tag + ":gates"

    def full(self) -> str:
        """Sorted set: gates of concurrency keys, by the server millisecond at which to make sure of them."""
        return self.tag + ":full"

    def running(self, key: str) -> str:
        """Set: ids of the rows that somebody holds under one concurrency key."""
        return f"{self.tag}:running:{key}"

    def rate(self, key: str) -> str:
        """String: the server millisecond at which the bucket of one rate key is full again."""
        return f"{self.tag}:rate:{key}"

    def expiring(self) -> str:
        """Sorted set: request id by the server millisecond after which it is not to start, or not to go on."""
        return self.tag + ":expiring"

    def asked(self, session_id: str) -> str:
        """Hash: request id to fence, for what the session holds and is asked to cancel."""
        return f"{self.tag}:asked:{session_id}"

    def delayed(self) -> str:
        """Sorted set: request id by the server millisecond from which it may run."""
        return self.tag + ":delayed"

    def unknown(self, tool: str) -> str:
        """Sorted set: request id by the server millisecond at which its provider is asked next."""
        return f"{self.tag}:unknown:{tool}"

    def row(self, request_id: str) -> str:
        """Hash: the record of one transition."""
        return f"{self.tag}:row:{request_id}"

    def args(self, request_id: str) -> str:
        """String: canonical arguments, opaque to every script."""
        return f"{self.tag}:args:{request_id}"

    def result(self, request_id: str) -> str:
        """String: the result body, opaque to every script."""
        return f"{self.tag}:result:{request_id}"

    def share(self, share: str) -> str:
        """String: the request id of the row of a dispatch, where another request id may name the same dispatch."""
        return f"{self.tag}:share:{share}"

    def ticket(self, ticket: str) -> str:
        """String: the request id that a dispatch identity was first used for, by which other arguments are noticed."""
        return f"{self.tag}:ticket:{ticket}"

    def aliases(self, request_id: str) -> str:
        """Set: other request ids that joined this one's row."""
        return f"{self.tag}:aliases:{request_id}"

    def receipts(self) -> str:
        """Stream: signed receipts, where they are kept here. An audit trail: nothing of ours shortens it."""
        return self.tag + ":receipts"

    def receipted(self) -> str:
        """Set: ids of the receipts that are, or were, in the stream."""
        return self.tag + ":receipted"

    def settled(self, client_id: str) -> str:
        """Channel: request ids that ended, for the client that waits for them. Only ever shortens a poll."""
        return f"{self.tag}:settled:{client_id}"

    def bell(self) -> str:
        """Channel: something is ready. Only ever shortens a poll."""
        return self.tag + ":bell"
