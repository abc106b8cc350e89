"""Stops the paths of one machine and the hosts that it installs from, from getting into the repository."""

from __future__ import annotations

import re
from pathlib import Path

from house.tree import ROOT, repository_files

# Each is written so that it does not find itself.
LOCAL = re.compile(
    r"(?<![\w.~}$])/(?:work|tmp|root|home|Users|mnt)/\w"
    r"|py[p]i\.org|python[h]osted|registry\.np[m]js|trusted[-]host|extra[-]index|index[-]url|arti[f]actory"
)
DATA = {".jsonl", ".gz", ".png", ".svg"}


def local_words(text: str) -> list[str]:
    """Paths and hosts that belong to one machine."""
    return [match.group() for match in LOCAL.finditer(text)]


def test_no_file_names_a_machine() -> None:
    texts = [path for path in repository_files() if not DATA & set(path.suffixes)]
    found = {path.relative_to(ROOT).as_posix(): local_words(_read(path)) for path in texts}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_guard_sees_paths_and_hosts() -> None:
    slash = "/"
    assert local_words(f"open('{slash}work{slash}main')") == [f"{slash}work{slash}m"]
    assert local_words("https://" + "pypi" + ".org") == ["pypi" + ".org"]
    assert local_words("tests/work/main, ~/home/x, {root}/tmp/y") == []


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
