"""What the provider says: read-only adapters, their verdicts, and what may be concluded from them.

- `verdict`: completed (with result and evidence), not_executed (with evidence), or unknown; never a boolean.
- `protocol`: what an adapter is: a lag, and one question.
- `resolve`: asks about what is due, and concludes; `run_once()` needs no actor and no clock.
"""
