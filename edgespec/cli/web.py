"""`edgespec chat --web`: the same app in a browser on this machine, through textual-serve."""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from edgespec.errors import SettingsError

HOST = "127.0.0.1"
"""Whoever reaches the page can read files with /file and use the models: nobody but this machine may."""

OWN_FLAGS = ("--web", "--port")
NOT_HERE = 'Install it: pip install "edgespec[web]"'


def serve(arguments: Sequence[str], port: int) -> int:
    """Serve `edgespec` with these arguments until Ctrl-C. Raises SettingsError if that cannot work."""
    server = make_server(arguments, port)
    refuse_taken(port)
    server.serve()
    return 0


def make_server(arguments: Sequence[str], port: int) -> Any:
    """The server, not started. Every page that is opened gets an app of its own. Raises SettingsError."""
    try:
        from aiohttp import web
        from textual_serve.server import Server
    except ModuleNotFoundError:
        raise SettingsError("--web needs the package textual-serve, which is not installed.", NOT_HERE) from None

    class LocalServer(Server):  # type: ignore[misc, unused-ignore]
        """Answers only pages of its own: a web site must not reach the app through the visitor's browser."""

        async def _make_app(self) -> web.Application:
            app = await super()._make_app()
            app.middlewares.append(only_own_pages)
            return app

    @web.middleware
    async def only_own_pages(request: web.Request, handler: Any) -> web.StreamResponse:
        if not is_own(request.headers.get("Host"), request.headers.get("Origin"), port):
            raise web.HTTPForbidden(text="This page answers only itself.")
        answer: web.StreamResponse = await handler(request)
        return answer

    return LocalServer(command_line(arguments), host=HOST, port=port, title="EdgeSpec")


def is_own(host: str | None, origin: str | None, port: int) -> bool:
    """Does a request come from a page of this server? `origin` is missing where a person typed the address."""
    own = {f"{name}:{port}" for name in (HOST, "localhost")}
    if port == 80:
        own |= {HOST, "localhost"}
    return host in own and (origin is None or urlsplit(origin).netloc in own)


def command_line(arguments: Sequence[str]) -> str:
    """What the server starts for every page: the same command without what only concerns the server."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.split("=", 1)[0] not in OWN_FLAGS:
            kept.append(word)
        elif word == "--port":
            next(words, None)
    return shlex.join([sys.executable, "-P", "-m", "edgespec.cli.main", *kept])


def refuse_taken(port: int) -> None:
    """Raise SettingsError if another program listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise SettingsError(f"Port {port} cannot be used: {error.strerror}.", "Choose another --port.") from None
