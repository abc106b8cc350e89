"""A host knows its surroundings, but not the store."""

from __future__ import annotations

import os

import pytest

from mycelium.actors.hosts.environment import host_environment
from mycelium.leases.errors import SettingsError

STORE = "redis://worker:p%40ssword@10.0.0.5:6379/0"


@pytest.mark.parametrize(
    "name, value",
    [
        ("MYCELIUM_URL", "anything"),
        ("MYCELIUM_ANYTHING", "1"),
        ("redis_url", "x"),
        ("VALKEY_PASSWORD", "x"),
        ("CELERY_BROKER", "rediss://elsewhere/0"),
        ("BROKER", "valkey://elsewhere"),
        ("SOCKET", "redis+unix:///run/x.sock"),
        ("ADDRESS", "tcp:10.0.0.5:6379"),
        ("SECRET", "p@ssword"),
    ],
)
def test_what_tells_of_the_store_is_taken_out(name: str, value: str) -> None:
    assert host_environment({name: value, "HOME": "/nowhere"}, {}, store_url=STORE) == {"HOME": "/nowhere"}


def test_a_unix_socket_is_an_address_too() -> None:
    made = host_environment({"A": "/run/m/s.sock", "B": "/run/m"}, {}, store_url="unix:///run/m/s.sock?db=0")
    assert made == {"B": "/run/m"}


def test_innocent_values_stay() -> None:
    base = {"PATH": "bin:sbin", "DOCKER_HOST": "unix:///run/docker.sock"}
    assert host_environment(base, {}, store_url="redis://:bin@10.0.0.5:6379") == base


def test_other_variables_and_those_given_on_purpose_stay() -> None:
    base = {"MYCELIUM_LOG_LEVEL": "info", "SHOP_URL": "http://shop", "PATH": "bin"}
    made = host_environment(base, {"REDIS_CACHE": "redis://cache:1"}, store_url=STORE)
    assert made == {**base, "REDIS_CACHE": "redis://cache:1"}


def test_the_store_is_not_given_on_purpose_either() -> None:
    with pytest.raises(SettingsError, match="'CACHE'"):
        host_environment({}, {"CACHE": "redis://10.0.0.5:6379/1"}, store_url=STORE)


def test_directories_come_before_the_python_path() -> None:
    assert host_environment({}, {}, store_url=None, path=["a"]) == {"PYTHONPATH": "a"}
    made = host_environment({"PYTHONPATH": "b"}, {}, store_url=None, path=["a"])
    assert made["PYTHONPATH"] == os.pathsep.join(["a", "b"])
