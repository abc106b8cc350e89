"""The file that the airline writes each effect to before it answers: the only thing that effects are counted from."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Self


class EffectsFile:
    """Appends one line an effect, each in a single write, so that no kill and no reader sees half of one.

    Args:
        path: created if missing; appended to if not.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, effect: dict[str, object]) -> None:
        """Write one effect. It is there for every reader when this returns."""
        os.write(self._fd, json.dumps(effect, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def count_effects(path: Path) -> Counter[str]:
    """Count the effects of each key; a file that is not there has none."""
    if not path.exists():
        return Counter()
    lines = path.read_text(encoding="utf-8").splitlines()
    return Counter(str(json.loads(line)["key"]) for line in lines)
