"""Runs one worker as a process of its own, with settings that no command line has: JSON in the first argument."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from mycelium.actors.worker.life import run_worker
from mycelium.actors.worker.settings import WorkerSettings
from mycelium.leases.session import SessionSettings

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    told = json.loads(sys.argv[1])
    session = SessionSettings(**told.pop("session"))
    sys.exit(asyncio.run(run_worker(WorkerSettings(session=session, **told))))
