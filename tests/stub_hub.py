"""A Hugging Face Hub of our own on 127.0.0.1: API, resolve, ranges, etags, and every way such a server can fail."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40


@dataclass
class Answer:
    """A canned reply, used once: before it the server's own logic is not asked."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    sent: int = 0


@dataclass
class StubHub:
    """The server's contents and its moods; change them between requests.

    Attributes:
        files: by repository, then by name.
        etags: by file name, where not the content's sha256.
        heads, gets: canned answers, consumed one a request.
        break_after: bytes of body after which a connection breaks, consumed one a GET.
        hold_after: bytes after which a GET waits for `released`, `held` being set meanwhile.
        content_length: whether anyone hears how long a file is.
        cdn: redirect file contents to another host.
        lie: content to send instead of the real one, by name.
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    commit: str = COMMIT
    etags: dict[str, str] = field(default_factory=dict)
    heads: list[Answer] = field(default_factory=list)
    gets: list[Answer] = field(default_factory=list)
    apis: list[Answer] = field(default_factory=list)
    break_after: list[int] = field(default_factory=list)
    hold_after: int | None = None
    ranges: bool = True
    content_length: bool = True
    cdn: bool = False
    gated: bool = False
    needs_token: str | None = None
    licence: str | None = None
    lie: dict[str, bytes] = field(default_factory=dict)
    proxy_status: int | None = None
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def etag(self, name: str, content: bytes) -> str:
        return self.etags.get(name) or hashlib.sha256(content).hexdigest()

    def bodies(self) -> list[Seen]:
        """The requests for file contents."""
        return [request for request in self.seen if request.method == "GET" and "/api/" not in request.path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: StubHub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_CONNECT(self) -> None:
        self._note("CONNECT")
        self._answer(Answer(self.hub.proxy_status or 502))

    def do_HEAD(self) -> None:
        self._note("HEAD")
        self._serve(self.hub.heads, body=False)

    def do_GET(self) -> None:
        self._note("GET")
        self._serve(self.hub.apis if "/api/" in self.path else self.hub.gets, body=True)

    def _note(self, method: str) -> None:
        headers = {key.lower(): item for key, item in self.headers.items()}
        self.request_seen = Seen(method, self.path, headers)
        self.hub.seen.append(self.request_seen)

    def _serve(self, canned: list[Answer], body: bool) -> None:
        hub = self.hub
        if hub.proxy_status is not None:
            return self._answer(Answer(hub.proxy_status))
        if canned:
            return self._answer(canned.pop(0), body)
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if hub.needs_token is not None and token != hub.needs_token and not path.startswith("/cdn/"):
            code = "GatedRepo" if hub.gated else "RepoNotFound"
            return self._answer(Answer(403 if hub.gated and token else 401, {"X-Error-Code": code}), body)
        if path.startswith("/api/models/"):
            return self._api(path.removeprefix("/api/models/"))
        match = re.match(r"^/(?:cdn/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)$", path)
        if match is None or match[1] not in hub.files:
            return self._answer(Answer(404, {"X-Error-Code": "RepoNotFound"}), body)
        if match[3] not in hub.files[match[1]]:
            return self._answer(Answer(404, {"X-Error-Code": "EntryNotFound"}), body)
        if hub.cdn and not path.startswith("/cdn/"):
            return self._redirect(match[1], match[3], path)
        return self._file(match[1], match[3], body)

    def _api(self, rest: str) -> None:
        repo = "/".join(rest.split("/")[:2])
        if repo not in self.hub.files:
            return self._answer(Answer(404, {"X-Error-Code": "RepoNotFound"}))
        card = {"license": self.hub.licence} if self.hub.licence else {}
        info = {
            "id": repo, "sha": self.hub.commit, "private": False, "tags": [], "cardData": card,
            "gated": "manual" if self.hub.gated else False,
            "siblings": [{"rfilename": name} for name in self.hub.files[repo]],
        }  # fmt: skip
        return self._answer(Answer(200, {"Content-Type": "application/json"}, json.dumps(info).encode()))

    def _file_headers(self, repo: str, name: str) -> dict[str, str]:
        content = self.hub.files[repo][name]
        headers = {"X-Repo-Commit": self.hub.commit, "ETag": f'"{self.hub.etag(name, content)}"'}
        headers["X-Linked-Etag"] = headers["ETag"]
        if self.hub.content_length:
            headers["X-Linked-Size"] = str(len(content))
        return headers

    def _redirect(self, repo: str, name: str, path: str) -> None:
        port = self.server.server_address[1]
        location = f"http://localhost:{port}/cdn{path}?signature=secret"
        self._answer(Answer(302, {**self._file_headers(repo, name), "Location": location}))

    def _file(self, repo: str, name: str, body: bool) -> None:
        hub = self.hub
        content = hub.lie.get(name, hub.files[repo][name])
        headers = self._file_headers(repo, name)
        headers["Content-Type"] = "application/octet-stream"
        start, status = 0, 200
        asked = re.match(r"bytes=(\d+)-$", self.headers.get("range", ""))
        condition = self.headers.get("if-range")
        if asked and hub.ranges and condition in (None, headers["ETag"]):
            start, status = int(asked[1]), 206
            if start >= len(content):
                return self._answer(Answer(416, {"Content-Range": f"bytes */{len(content)}"}), body)
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send_response(status)
        for key, item in headers.items():
            self.send_header(key, item)
        if hub.content_length:
            self.send_header("Content-Length", str(len(content) - start))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if body:
            self._send(content[start:])

    def _send(self, content: bytes) -> None:
        hub = self.hub
        end = min(hub.break_after.pop(0), len(content)) if hub.break_after else len(content)
        hold = hub.hold_after if hub.hold_after is not None and hub.hold_after < end else None
        try:
            if hold is not None:
                self._write(content[:hold])
                hub.held.set()
                hub.released.wait(30)
                self._write(content[hold:end])
            else:
                self._write(content[:end])
        except OSError:
            self.close_connection = True
        if end < len(content):
            self.close_connection = True

    def _write(self, content: bytes) -> None:
        self.wfile.write(content)
        self.wfile.flush()
        self.request_seen.sent += len(content)

    def _answer(self, answer: Answer, body: bool = True) -> None:
        self.send_response(answer.status)
        for key, item in answer.headers.items():
            self.send_header(key, item)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if body:
            self.wfile.write(answer.body)


@contextmanager
def serve(hub: StubHub, certificate: tuple[Path, Path] | None = None) -> Iterator[StubHub]:
    """Runs the server until the block ends; with a certificate and key it speaks TLS."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    hub.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
