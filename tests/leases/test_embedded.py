"""The embedded server: one per directory, never left behind, nothing acknowledged is lost, nobody else can reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import stat
import sys
import threading
from pathlib import Path

import pytest
from redis import Redis

from kit.fixtures import StartServer
from kit.launching import BY_PIPE, PLAIN, ProcessEnd, launching
from kit.servers import Flavour, flavours
from mycelium.leases.embedded import Durability, EmbeddedServer, default_data_dir
from mycelium.leases.errors import ServerUnavailableError, SettingsError
from mycelium.leases.server_directory import ServerDirectory
from mycelium.leases.server_lock import DirectoryLock, Holder, try_lock

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
END_WITHIN_S = 10.0


def said(server: EmbeddedServer, *words: str) -> object:
    with Redis.from_url(server.url) as client:
        return client.execute_command(*words)


# ── a life ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flavour", flavours())
@pytest.mark.parametrize("port", [None, 0])
def test_it_starts_answers_and_stops(
    start_server: StartServer, tmp_path: Path, flavour: Flavour, port: int | None
) -> None:
    server = start_server(tmp_path / "data", flavour=flavour, port=port)
    assert re.fullmatch(r"unix:///.*/server\.sock" if port is None else r"redis://127\.0\.0\.1:\d+", server.url)
    assert (server.owned, server.alive) == (True, True)
    assert said(server, "PING") is True
    with ProcessEnd(server.pid) as end:
        server.stop()
        assert end.comes_within(0)
    assert (server.owned, server.alive) == (False, False)
    assert sorted(path.name for path in server.data_dir.iterdir()) == [
        "appendonlydir",
        "lock",
        "server.conf",
        "server.log",
    ]
    server.stop()


async def test_the_async_twins(tmp_path: Path) -> None:
    async with await EmbeddedServer.start_async(tmp_path / "data") as server:
        first = server.pid
        await server.restart_async()
        assert server.pid != first
        assert said(server, "PING") is True
        joined = await EmbeddedServer.join_or_start_async(tmp_path / "data")
        assert not joined.owned
    assert not server.alive


async def test_a_cancelled_start_leaves_no_server_behind(tmp_path: Path) -> None:
    starting = asyncio.create_task(EmbeddedServer.start_async(tmp_path))
    await asyncio.sleep(0)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    lock.release()


def test_odd_characters_in_the_path(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(tmp_path / 'a b"c\\d%20#é?')
    assert said(server, "SET", "k", "v") is True
    server.restart()
    assert said(server, "GET", "k") == b"v"


@pytest.mark.parametrize("length", [80, 180])
def test_a_path_too_long_for_a_socket(start_server: StartServer, tmp_path: Path, length: int) -> None:
    server = start_server(tmp_path / ("d" * length))
    assert said(server, "PING") is True
    place = Path(server.url.removeprefix("unix://")).parent
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert place != server.data_dir
    server.stop()
    assert not place.exists()


def test_default_data_dir() -> None:
    assert default_data_dir({"MYCELIUM_DATA_DIR": "/a", "XDG_DATA_HOME": "/b"}) == Path("/a")
    assert default_data_dir({"XDG_DATA_HOME": "/b"}) == Path("/b/mycelium")
    assert default_data_dir({}) == Path.home() / ".local" / "share" / "mycelium"


# ── nothing acknowledged is lost ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("flavour", flavours())
def test_acknowledged_writes_survive_a_kill(start_server: StartServer, tmp_path: Path, flavour: Flavour) -> None:
    server = start_server(tmp_path, flavour=flavour)
    with Redis.from_url(server.url) as client:
        for number in range(1000):
            assert client.set(f"k{number}", number)
    url, pid = server.url, server.pid
    server.kill()
    assert not server.alive
    server.restart()
    assert server.url == url
    assert server.pid != pid
    with Redis.from_url(server.url) as client:
        assert client.mget([f"k{number}" for number in range(1000)]) == [b"%d" % number for number in range(1000)]


@pytest.mark.skipif(len(flavours()) < 2, reason="there is one server program here")
def test_another_program_reads_the_data(start_server: StartServer, tmp_path: Path) -> None:
    for turn, flavour in enumerate([*flavours(), *flavours()]):
        server = start_server(tmp_path, flavour=flavour)
        assert said(server, "INCR", "k") == turn + 1
        said(server, "BGREWRITEAOF")
        server.stop()


def test_a_server_that_loads_is_waited_for(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(
        tmp_path / "data", config={"key-load-delay": "500", "loading-process-events-interval-bytes": "1024"}
    )
    with Redis.from_url(server.url) as client, client.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"k{number}", "x" * 50)
        pipe.execute()
    server.kill()
    server.restart()
    assert said(server, "DBSIZE") == 1000


def test_durability_is_what_was_asked_for(start_server: StartServer, tmp_path: Path) -> None:
    for durability, settings in {
        Durability.NONE: {"appendonly": "no"},
        Durability.ALWAYS: {"appendonly": "yes", "appendfsync": "always"},
        Durability.EVERYSEC: {"appendonly": "yes", "appendfsync": "everysec"},
    }.items():
        server = start_server(tmp_path, durability=durability)
        with Redis.from_url(server.url, decode_responses=True) as client:
            expected = settings | {"save": "", "maxmemory-policy": "noeviction", "notify-keyspace-events": ""}
            assert client.config_get(*expected) == expected
        server.stop()


def test_durable_data_is_not_opened_without_durability(start_server: StartServer, tmp_path: Path) -> None:
    start_server(tmp_path).stop()
    with pytest.raises(SettingsError, match="holds durable data"):
        start_server(tmp_path, durability=Durability.NONE)


# ── one server per directory ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_second_start_is_refused_and_names_the_holder(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(tmp_path)
    with pytest.raises(SettingsError, match=rf"in use by process {os.getpid()} \(server process {server.pid}\).*Join"):
        start_server(tmp_path)
    assert said(server, "PING") is True


def test_the_server_itself_holds_the_lock(tmp_path: Path) -> None:
    server = EmbeddedServer.start(tmp_path)
    lock = server._lock
    assert lock is not None
    os.close(lock.fd)
    assert try_lock(tmp_path / "lock") is None
    lock.fd = os.open(tmp_path / "lock", os.O_RDWR)
    server.stop()
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    lock.release()


def test_join_joins_the_running_server_and_cannot_end_it(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(tmp_path)
    with EmbeddedServer.join_or_start(tmp_path) as joined:
        assert (joined.url, joined.pid, joined.owned, joined.alive) == (server.url, server.pid, False, True)
        for end in (joined.kill, joined.restart):
            with pytest.raises(SettingsError, match="not ours to end"):
                end()
    assert server.alive
    server.stop()
    assert not joined.alive
    with EmbeddedServer.join_or_start(tmp_path) as started:
        assert started.owned


async def test_of_many_that_join_or_start_one_starts(tmp_path: Path) -> None:
    servers = await asyncio.gather(*(EmbeddedServer.join_or_start_async(tmp_path) for _ in range(4)))
    assert sorted(server.owned for server in servers) == [False, False, False, True]
    assert len({(server.url, server.pid) for server in servers}) == 1
    for server in servers:
        await server.stop_async()


def test_what_a_kill_leaves_behind_does_not_matter(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"launcher_pid": 1, "server_pid": 1}')
    (tmp_path / "url").write_text(f"unix://{tmp_path}/server.sock\n")
    (tmp_path / "url.new").write_text("half")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmp_path / "server.sock"))
    with EmbeddedServer.join_or_start(tmp_path) as server:
        assert server.owned
        assert said(server, "PING") is True


def test_a_strangers_server_at_the_address_is_not_joined(start_server: StartServer, tmp_path: Path) -> None:
    stranger = start_server(port=0)
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    lock.name_holder(Holder(launcher_pid=os.getpid(), server_pid=stranger.pid + 1))
    directory = ServerDirectory.at(tmp_path)
    directory.write_url(stranger.url)
    with pytest.raises(SettingsError, match="in use by process"):
        directory.lock_or_find(threading.Event(), join=True, patience_s=0.0)
    lock.release()
    found = directory.lock_or_find(threading.Event(), join=True, patience_s=0.0)
    assert isinstance(found, DirectoryLock)
    found.release()


# ── never left behind ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", [PLAIN, BY_PIPE], ids=["by_signal", "by_pipe"])
def test_a_killed_launcher_takes_its_server_along_and_loses_nothing(tmp_path: Path, program: str) -> None:
    with launching(tmp_path, program) as launched, ProcessEnd(launched.server_pid) as end:
        with Redis.from_url(launched.url) as client:
            for number in range(100):
                client.set(f"k{number}", number)
        assert not end.comes_within(0)
        launched.launcher.kill()
        try:
            assert end.comes_within(END_WITHIN_S)
        finally:
            end.force()
    with EmbeddedServer.start(tmp_path) as server:
        assert said(server, "DBSIZE") == 100


@on_linux
def test_a_frozen_server_ends_with_its_launcher_too(tmp_path: Path) -> None:
    with launching(tmp_path) as launched, ProcessEnd(launched.server_pid) as end:
        os.kill(launched.server_pid, signal.SIGSTOP)
        launched.launcher.kill()
        try:
            assert end.comes_within(END_WITHIN_S)
        finally:
            end.force()


def test_a_frozen_server_is_killed_after_the_grace(start_server: StartServer) -> None:
    server = start_server()
    with ProcessEnd(server.pid) as end:
        os.kill(server.pid, signal.SIGSTOP)
        server.stop(grace_s=0.05)
        assert end.comes_within(0)


def test_a_launcher_that_just_ends_leaves_neither_server_nor_directory() -> None:
    with launching(None) as launched, ProcessEnd(launched.server_pid) as end:
        assert launched.data_dir.exists()
        launched.launcher.communicate()
        try:
            assert end.comes_within(END_WITHIN_S)
        finally:
            end.force()
        assert launched.launcher.returncode == 0
        assert not launched.data_dir.exists()


def test_memory_mode_leaves_nothing_behind(start_server: StartServer) -> None:
    server = start_server()
    assert said(server, "CONFIG", "GET", "appendonly") == {b"appendonly": b"no"}
    assert server.data_dir.exists()
    server.stop()
    assert not server.data_dir.exists()


@on_linux
def test_it_outlives_the_thread_that_started_it() -> None:
    started: list[tuple[EmbeddedServer, int]] = []
    thread = threading.Thread(target=lambda: started.append((EmbeddedServer.start(), threading.get_native_id())))
    thread.start()
    thread.join()
    [(server, thread_id)] = started
    while Path(f"/proc/self/task/{thread_id}").exists():
        os.sched_yield()
    with server, ProcessEnd(server.pid) as end:
        assert not end.comes_within(0)
        assert said(server, "PING") is True


def test_it_has_a_session_of_its_own(start_server: StartServer) -> None:
    server = start_server()
    assert os.getsid(server.pid) == server.pid
    assert os.getpgid(server.pid) == server.pid


# ── nobody else can reach it ─────────────────────────────────────────────────────────────────────────────────────────


def open_files(pid: int) -> set[str]:
    return {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}


def listening_on(pid: int) -> list[str]:
    """The addresses, in the kernel's hexadecimal, on which a process listens for TCP."""
    tables = [Path(f"/proc/{pid}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()]
    links = open_files(pid)
    return [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]


@on_linux
def test_it_listens_on_loopback_or_on_nothing(start_server: StartServer) -> None:
    assert listening_on(start_server().pid) == []
    assert listening_on(start_server(port=0).pid) == ["0100007F"]


def test_its_files_are_private(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(tmp_path / "data")
    places = [server.data_dir, *server.data_dir.rglob("*")]
    assert [place for place in places if place.stat().st_mode & 0o077] == []
    assert "server.sock" in {place.name for place in places}


@on_linux
def test_it_inherits_nothing_but_the_lock(start_server: StartServer, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        server = start_server(tmp_path / "data")
        opened = open_files(server.pid)
    assert str(tmp_path / "secret") not in opened
    assert str(server.data_dir / "lock") in opened


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_ends_says_why(start_server: StartServer, tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailableError, match="sometimes"):
        start_server(tmp_path, config={"appendfsync": "sometimes"})
    start_server(tmp_path)


def test_a_taken_port_is_not_mistaken_for_ours(start_server: StartServer) -> None:
    port = int(start_server(port=0).url.rpartition(":")[2])
    with pytest.raises(ServerUnavailableError, match="already in use"):
        start_server(port=port)


@pytest.mark.parametrize("extra", [{"bind": "0.0.0.0"}, {"Port": "1"}, {"hz": "10\nport 1"}])  # noqa: S104 - refused
def test_what_the_launcher_decides_cannot_be_overridden(start_server: StartServer, extra: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="does not take the setting"):
        start_server(config=extra)


def test_other_settings_can(start_server: StartServer) -> None:
    server = start_server(config={"maxmemory-policy": "allkeys-lru"})
    assert said(server, "CONFIG", "GET", "maxmemory-policy") == {b"maxmemory-policy": b"allkeys-lru"}


def test_a_directory_that_cannot_be(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="no directory"):
        start_server(tmp_path / "file")


def test_a_stopped_server_stays_stopped(start_server: StartServer) -> None:
    server = start_server()
    server.stop()
    with pytest.raises(SettingsError, match="not ours to end"):
        server.restart()
