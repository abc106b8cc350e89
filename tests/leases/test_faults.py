"""Each row of the table: what an error proves of the command that met it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from redis import exceptions
from redis._parsers import BaseParser

from mycelium.leases.errors import ServerUnfitError
from mycelium.leases.faults import CODES, Fault, classify, classify_unsent, is_reply, spoken


def reply(text: str) -> Exception:
    """Make the library's error of a server's reply, as its parser makes it."""
    error = cast("Any", BaseParser).parse_error(text)
    assert isinstance(error, Exception)
    return error


ROWS = [
    ("NOSCRIPT No matching script. Please use EVAL.", Fault.NOSCRIPT),
    ("LOADING Redis is loading the dataset in memory", Fault.NOT_RUN),
    ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Fault.NOT_RUN),
    ("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.", Fault.NOT_RUN),
    ("OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:5.", Fault.NOT_RUN),
    ("READONLY You can't write against a read only replica.", Fault.NOT_RUN),
    ("NOREPLICAS Not enough good replicas to write.", Fault.NOT_RUN),
    ("TRYAGAIN Multiple keys request during rehashing of slot", Fault.NOT_RUN),
    ("CLUSTERDOWN Hash slot not served", Fault.NOT_RUN),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Fault.NOT_RUN),
    ("NOAUTH Authentication required.", Fault.REFUSED),
    ("WRONGPASS invalid username-password pair or user is disabled.", Fault.REFUSED),
    ("NOPERM User x has no permissions to run the 'evalsha' command", Fault.REFUSED),
    ("MOVED 1234 127.0.0.1:7001", Fault.REFUSED),
    ("ASK 1234 127.0.0.1:7001", Fault.REFUSED),
    ("CROSSSLOT Keys in request don't hash to the same slot", Fault.REFUSED),
    ("ERR max number of clients reached", Fault.NOT_RUN),
    (
        "ERR Error running script (call to f_ab): @user_script:1: Script killed by user with SCRIPT KILL...",
        Fault.NOT_RUN,
    ),
    ("ERR invalid password", Fault.REFUSED),
    ("ERR AUTH <password> called without any password configured for the default user.", Fault.REFUSED),
    (
        "ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -OOM command not allowed",
        Fault.NOT_RUN,
    ),
    ("ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -MISCONF Redis is", Fault.NOT_RUN),
    ("ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -READONLY You can't", Fault.NOT_RUN),
    ("ERR user_script:9: attempt to index a nil value script: ab, on @user_script:9.", Fault.BROKEN),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", Fault.BROKEN),
    ("ERR unknown command 'EVALSHA'", Fault.BROKEN),
    ("SOMETHING new", Fault.BROKEN),
]


@pytest.mark.parametrize("text, fault", ROWS, ids=[text[:24] for text, _ in ROWS])
def test_what_the_server_says(text: str, fault: Fault) -> None:
    error = reply(text)
    assert classify(error) is fault
    assert is_reply(error)


def test_every_code_has_a_row() -> None:
    assert set(CODES) <= {text.partition(" ")[0] for text, _ in ROWS}


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("Connection closed by server."),
        exceptions.TimeoutError("Timeout reading from socket"),
        TimeoutError(),
        ConnectionResetError(104, "Connection reset by peer"),
        exceptions.InvalidResponse("Protocol Error"),
    ],
    ids=repr,
)
def test_silence_after_sending_proves_nothing(error: Exception) -> None:
    assert classify(error) is Fault.MAYBE_RUN
    assert not is_reply(error)


@pytest.mark.parametrize(
    "error, fault",
    [
        (exceptions.ConnectionError("Error 111 connecting to localhost:1. Connection refused."), Fault.NOT_RUN),
        (exceptions.TimeoutError("Timeout connecting to server"), Fault.NOT_RUN),
        (reply("LOADING Redis is loading the dataset in memory"), Fault.NOT_RUN),
        (reply("WRONGPASS invalid username-password pair"), Fault.REFUSED),
        (ServerUnfitError("another schema.", next_step="…"), Fault.REFUSED),
    ],
    ids=repr,
)
def test_without_a_connection_nothing_left(error: Exception, fault: Fault) -> None:
    assert classify_unsent(error) is fault


def test_a_refusal_is_found_behind_the_error_that_hides_it() -> None:
    hidden = exceptions.ConnectionError("Authentication required.")
    hidden.__cause__ = reply("NOAUTH Authentication required.")
    assert classify_unsent(hidden) is Fault.REFUSED


def test_an_error_is_said_with_its_code() -> None:
    assert spoken(reply("OOM command not allowed")) == "OOM command not allowed"
    assert spoken(TimeoutError()) == "TimeoutError"
