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
    *("meta", "counters", "states", "events", "tools", "sessions", "delayed", "ready", "unknown"),
    *("receipts", "receipted"),
)
"""Keys that have no TTL by design: bounded by a cap, by the tools declared or by the open jobs; receipts by people."""

OPEN_ONLY = ("row", "args", "held", "session", "share", "ticket", "aliases")
"""Keys that have no TTL while their transition or session is open, and one from the moment it ends."""

ENDED = ("result",)
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

    def sessions(self) -> str:
        """Sorted set: session id by the deadline of its lease, in server milliseconds."""
        return self.tag + ":sessions"

    def session(self, session_id: str) -> str:
        """Hash: who the holder is, and the last turn of each lane."""
        return f"{self.tag}:session:{session_id}"

    def held(self, session_id: str) -> str:
        """Hash: request id to fence, for every transition that the session holds."""
        return f"{self.tag}:held:{session_id}"

    def ready(self, tool: str) -> str:
        """List: request ids that may be claimed, oldest first."""
        return f"{self.tag}:ready:{tool}"

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
