"""The fixtures of the whole test suite."""

from __future__ import annotations

from kit.fixtures import durable_server, namespace, proxy, server, start_proxy, start_server, url

__all__ = ["durable_server", "namespace", "proxy", "server", "start_proxy", "start_server", "url"]
