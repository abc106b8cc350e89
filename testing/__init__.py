"""For tests of tools and of whatever calls them: a worker in the process of the test, and a clock that the test moves.

`in_memory_worker([charge])` gives a worker with the scripts, the actors and the rules of `mycelium-worker`; only its
tool host is no process of its own. docs/testing.md shows what can be done with it; `mycelium.testing.fixtures` has it
for pytest.
"""

from __future__ import annotations

from .clock import FakeClock
from .servers import fake_server, private_server
from .worker import InMemoryWorker, in_memory_worker

__all__ = ["FakeClock", "InMemoryWorker", "fake_server", "in_memory_worker", "private_server"]
