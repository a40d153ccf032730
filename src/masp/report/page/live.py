"""The page while training goes on: a small web server on loopback that hands out the newest content.

The address holds a random token, so other users of the machine cannot guess it; nothing is written, so nothing is lost
when it ends.
"""

from __future__ import annotations

import gzip
import ipaddress
import secrets
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from masp.errors import UserError
from masp.report.page.document import html, page_json, run_page
from masp.report.page.runs import ReportRun, find_runs

SHARE_OF_TIME = 0.1
"""Most of one core's time that making content may take: training goes first."""


class LiveContent:
    """The content of the page, made anew when a run has changed and somebody asks."""

    def __init__(self, paths: Sequence[str | Path]):
        self._paths = paths
        self._runs: dict[Path, ReportRun] = {path: ReportRun.open(path) for path in find_runs(paths)}
        self._lock = threading.Lock()
        self._seen: Any = None
        self._page: dict[str, Any] = {}
        self._packed = b""
        self._tag = ""
        self._wait_until = 0.0

    def page(self) -> dict[str, Any]:
        """The newest content."""
        with self._lock:
            self._refresh()
            return self._page

    def packed(self) -> tuple[bytes, str]:
        """The newest content as compressed JSON, and a tag that changes with it."""
        with self._lock:
            self._refresh()
            return self._packed, self._tag

    def _refresh(self) -> None:
        started = time.monotonic()
        if started < self._wait_until:
            return
        self._find_new_runs()
        for run in self._runs.values():
            run.update()
        seen = [(path, run.frames, run.state) for path, run in self._runs.items()]
        if seen == self._seen:
            return
        self._page = run_page(list(self._runs.values()))
        self._packed = gzip.compress(page_json(self._page).encode(), 6)
        self._seen, self._tag = seen, f'"{secrets.token_hex(8)}"'
        self._wait_until = time.monotonic() + (time.monotonic() - started) / SHARE_OF_TIME

    def _find_new_runs(self) -> None:
        for path in find_runs(self._paths):
            if path not in self._runs:
                try:
                    self._runs[path] = ReportRun.open(path)
                except UserError:  # it is just being made
                    continue


class LiveServer(ThreadingHTTPServer):
    """Serves `url` and nothing else."""

    daemon_threads = True

    def __init__(self, content: LiveContent, host: str = "127.0.0.1", port: int = 0, remote: bool = False):
        """`remote`: the address may be one that other machines reach."""
        if not remote and not _is_loopback(host):
            raise UserError(
                f"--host {host} can be reached from other machines; add --remote if that is what you want, "
                "or use 127.0.0.1 and a tunnel (ssh -L)"
            )
        self.content, self.token, self.remote = content, secrets.token_urlsafe(18), remote
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on {host}, port {port}: {error}; choose another --port") from None
        self.url = f"http://{host}:{self.server_address[1]}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = 60

    def do_GET(self) -> None:
        token, _, rest = self.path.removeprefix("/").partition("/")
        valid_token = secrets.compare_digest(token.encode(), self.server.token.encode())
        if not valid_token or not (self.server.remote or self._asked_by_loopback_name()) or rest not in ("", "data"):
            self._answer(
                404, b"there is no such page; the address that masp watch printed has a token in it\n", "text/plain"
            )
        elif rest == "":
            page = html(self.server.content.page(), live=True)
            self._answer(200, page.encode(), "text/html; charset=utf-8")
        else:
            self._send_data()

    def _send_data(self) -> None:
        packed, tag = self.server.content.packed()
        if self.headers.get("If-None-Match") == tag:
            self._answer(304, b"", "application/json")
        else:
            self._answer(200, packed, "application/json", {"ETag": tag, "Content-Encoding": "gzip"})

    def _asked_by_loopback_name(self) -> bool:
        """No other name: a page of somebody else's whose name was made to point here has that name."""
        host = self.headers.get("Host", "").rpartition(":")[0].strip("[]")
        return _is_loopback(host)

    def _answer(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in {
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal belongs to whoever started the server."""

    def version_string(self) -> str:
        return "masp"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
