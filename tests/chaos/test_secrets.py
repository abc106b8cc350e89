"""What a tool host can see of the store: nothing."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from chaos.stage import plain, staged

from kit.fixtures import StartServer

PASSWORD = "correct-horse-battery"


async def test_a_tool_host_has_no_credentials_no_url_and_no_socket(
    start_server: StartServer, namespace: str, tmp_path: Path
) -> None:
    server = start_server(port=0)
    async with plain(server.url) as direct:
        await direct.execute_command("ACL", "SETUSER", "worker", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    address = urlsplit(server.url).netloc
    url = f"redis://worker:{PASSWORD}@{address}"
    async with staged(server.url, namespace, tmp_path / "stage") as stage:
        # A second variable with the same content, as deployments have them.
        worker = stage.spawn_command({"MYCELIUM_URL": url, "REDIS_URL": url, "CACHE": url, "KEEP": "this"})
        await worker.ready()
        assert len(worker.hosts) == 2
        assert held_sockets(worker.pid) & tcp_sockets(worker.pid, int(address.rpartition(":")[2]))
        for host in worker.hosts:
            told = read(host, "environ") + read(host, "cmdline")
            for secret in (PASSWORD, address, "MYCELIUM_URL", "REDIS_URL", "CACHE"):
                assert secret not in told, secret
            assert "KEEP=this" in told
            assert not held_sockets(host) & tcp_sockets(host)
            # One to the control process, and the two ends by which its own loop is woken.
            assert len(held_sockets(host)) <= 3


def read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")


def held_sockets(pid: int) -> set[str]:
    """Inodes of the sockets that a process has open."""
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    return {found[1] for link in links if (found := re.fullmatch(r"socket:\[(\d+)\]", link))}


def tcp_sockets(pid: int, port: int | None = None) -> set[str]:
    """Inodes of all TCP sockets that the process's network has; only those connected to a port."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in read(pid, f"net/{name}").splitlines()[1:]]
    return {line[9] for line in lines if port is None or int(line[2].rpartition(":")[2], 16) == port}
