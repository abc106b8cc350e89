"""What a row says of its call beside its identity: for people and for audit, never compared."""

from __future__ import annotations

import msgspec


class About(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where a call came from. Stored as one field of the row; what is empty takes no room.

    Attributes:
        run_id: the agent's run.
        thread_id: the conversation.
        node: the node of the agent's graph.
        step: the model turn; None: not given.
        tool_call_id: the model's own id of the call: a hint.
        dispatch_id: the dispatch that the host named.
        agent_id: the agent that the tool is declared for.
        policy_version: the policy under which it is declared.
        parent_request_id: the transition that handed this one off.
        handoff_id: which hand-off of that one it was.
        decision_id: the host's own decision that led to the call.
        state_ref: the state of the agent that the call was decided on.
        labels: words of the caller's own.
    """

    run_id: str = ""
    thread_id: str = ""
    node: str = ""
    step: int | None = None
    tool_call_id: str = ""
    dispatch_id: str = ""
    agent_id: str = ""
    policy_version: str = ""
    parent_request_id: str = ""
    handoff_id: str = ""
    decision_id: str = ""
    state_ref: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])

    def body(self) -> bytes:
        """As it is stored; empty when there is nothing to say."""
        encoded = msgspec.json.encode(self)
        return b"" if encoded == b"{}" else encoded

    @classmethod
    def read(cls, body: str) -> About:
        """Read what was stored; what cannot be read says nothing, so that its row is judged all the same."""
        try:
            return msgspec.json.decode(body, type=cls) if body else cls()
        except ValueError:
            return cls()
