"""The dashboard's server: this machine alone, read only, nothing from or to anywhere else."""

import io
import json
import socket
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cfq_bench.dashboard.index import RecordIndex
from cfq_bench.dashboard.page import FILTERS, Selection, overview, run_document, security_policy
from cfq_bench.dashboard.run_page import run_page
from cfq_bench.errors import UserError

HOST = "127.0.0.1"
MOST_ROWS = 500
"""Rows that broke, on the page of one run."""
PATIENCE_S = 10.0
"""From an answer, or the start of a connection, to the end of the next request's head; and for
taking an answer. A connection that is idle or slow for longer is closed."""


class Dashboard(ThreadingHTTPServer):
    """Serves the records of one folder on loopback.

    Args:
        results_dir: folder of the results.
        port: 0 takes any that is free.
        patience_s: as `PATIENCE_S`.

    Raises:
        UserError: the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # of five, as usual, a sixth that comes at once waits for a second

    def __init__(self, results_dir: Path, port: int, patience_s: float = PATIENCE_S) -> None:
        self.results_dir, self.patience_s = results_dir, patience_s
        self.index = RecordIndex(results_dir)
        self._rendered: tuple[str, str, bytes] | None = None
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}): choose another --port"
            ) from None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/"

    def hosts(self) -> set[str]:
        """Names that a request may come under; others are a web site that resolves to here."""
        return {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever went away before the answer is nobody's news."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def page(self, query: str) -> bytes:
        """The overview for one state of the filters, rendered again only if something changed."""
        snapshot = self.index.refresh()
        last = self._rendered
        if last is not None and last[:2] == (snapshot.version, query):
            return last[2]
        chosen = {name: values for name, values in parse_qs(query).items() if name in FILTERS}
        page = overview(snapshot, Selection(chosen), source=source_line(self.results_dir))
        self._rendered = (snapshot.version, query, page.encode())
        return self._rendered[2]


def source_line(results_dir: Path) -> str:
    """Where the records lie."""
    return f"Records of {results_dir}."


class _Until(io.RawIOBase):
    """What a socket receives, until a moment: a byte now and then does not hold a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.end = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.end - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("the request did not come in time")
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard
    server_version = "cfq-bench"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Read with a deadline; the rest as usual."""
        super().setup()
        self.rfile.close()
        self.received = _Until(self.connection)
        self.rfile = io.BufferedReader(self.received)

    def handle_one_request(self) -> None:
        """Wait for a request, and answer it; close the connection where none comes in time."""
        self.received.end = time.monotonic() + self.server.patience_s
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer one request."""
        self.connection.settimeout(self.server.patience_s)
        if self.headers.get("Host") not in self.server.hosts():
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"open {self.server.url} instead")
            return
        address = urlsplit(self.path)
        try:
            if address.path == "/":
                self._answer(self.server.page(address.query), "text/html")
            elif address.path == "/version":
                version = {"version": self.server.index.refresh().version}
                self._answer(json.dumps(version).encode(), "application/json")
            elif address.path.startswith("/run/"):
                self._run(address.path.removeprefix("/run/"))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        except UserError as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def do_HEAD(self) -> None:
        """As `do_GET`, without the body."""
        self.do_GET()

    def _run(self, run_id: str) -> None:
        run = self.server.index.get(run_id)
        if run is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such run")
            return
        page = run_page(self.server.index.store, run_id, run.title, MOST_ROWS)
        self._answer(run_document(page).encode(), "text/html")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._answer(f"{status.phrase}: {why}\n".encode(), "text/plain", status)

    def _answer(self, body: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Content-Security-Policy": security_policy(),
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are nobody's news."""
