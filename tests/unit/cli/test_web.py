"""`edgespec chat --web`: the app for a browser on this machine, and for nobody else."""

from __future__ import annotations

import shlex
import socket
import sys
from typing import Any

import pytest
from cli_fakes import Cli

from edgespec.cli import web
from edgespec.errors import SettingsError


def test_only_this_machine_is_served(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server_module = pytest.importorskip("textual_serve.server")
    served: list[Any] = []
    monkeypatch.setattr(server_module.Server, "serve", lambda self: served.append(self))
    monkeypatch.setattr(sys, "argv", ["edgespec", "chat", "--web", "--model", model, "--port", "8123"])
    monkeypatch.setattr(web, "refuse_taken", lambda port: None)
    assert cli("chat", "--web", "--model", model, "--port", "8123").code == 0
    (server,) = served
    assert (server.host, server.port, server.public_url) == ("127.0.0.1", 8123, "http://127.0.0.1:8123")
    assert shlex.split(server.command)[1:] == ["-P", "-m", "edgespec.cli.main", "chat", "--model", model]


async def test_the_socket_is_bound_to_this_machine_and_foreign_pages_are_refused() -> None:
    pytest.importorskip("textual_serve")
    from aiohttp import ClientSession
    from aiohttp.web_runner import AppRunner, TCPSite

    with socket.socket() as probe:
        probe.bind((web.HOST, 0))
        port = probe.getsockname()[1]
    server = web.make_server(["chat", "--web"], port)
    runner = AppRunner(await server._make_app())
    await runner.setup()
    try:
        await TCPSite(runner, server.host, server.port).start()
        assert [address[0] for address in runner.addresses] == ["127.0.0.1"]
        async with ClientSession() as session:
            page = f"http://127.0.0.1:{port}"
            assert (await session.get(page)).status == 200
            assert (await session.get(page, headers={"Origin": "https://evil.example"})).status == 403
            assert (await session.get(page, headers={"Host": f"evil.example:{port}"})).status == 403
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("host", "origin", "own"),
    [
        ("127.0.0.1:8000", None, True),
        ("localhost:8000", "http://localhost:8000", True),
        ("127.0.0.1:8000", "null", False),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", False),
        ("rebound.example:8000", None, False),
        (None, None, False),
    ],
)
def test_whose_page_it_is(host: str | None, origin: str | None, own: bool) -> None:
    assert web.is_own(host, origin, 8000) is own


def test_without_the_extra_the_error_names_the_command(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    result = cli("chat", "--web", "--model", model)
    assert result.code == 1
    assert 'pip install "edgespec[web]"' in result.err and "Traceback" not in result.err


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with socket.socket() as other:
        other.bind((web.HOST, 0))
        other.listen()
        with pytest.raises(SettingsError, match="cannot be used"):
            web.refuse_taken(other.getsockname()[1])


@pytest.mark.parametrize("arguments", [("--web", "--plain"), ("--port", "9000"), ("--web", "--port", "0")])
def test_what_does_not_go_together_is_refused(cli: Cli, model: str, arguments: tuple[str, ...]) -> None:
    assert cli("chat", "--model", model, *arguments).code == 2
