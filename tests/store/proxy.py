"""An HTTP proxy before a store's server: it throttles, refuses, cuts off, and tells a wrong time."""

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LENGTH = "content-length"
HOPS = {"connection", "keep-alive", "transfer-encoding", LENGTH}
TIMES = {"date", "last-modified"}
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
RFC_TIME = re.compile(rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT")

Request = tuple[str, str]
"""A method, and a path with its query."""


@dataclass
class Answer:
    """What the next `count` requests that `matches` get in place of the server's answer; without a
    status, the connection ends, before the server gets the request or after (`is_late`)."""

    matches: Callable[[Request], bool]
    status: int | None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    count: int = 1_000_000
    is_late: bool = False


@dataclass
class Proxy:
    """The proxy; `upstream` is the server's port.

    Attributes:
        answers: Orders that are still open.
        answered: The requests that met one.
        passed: The requests that the server got.
        spoils: How the header Authorization becomes another; None: as it is.
        hours: How much the server's clock seems to be ahead.
    """

    upstream: int = 0
    port: int = 0
    answers: list[Answer] = field(default_factory=list)
    answered: list[Request] = field(default_factory=list)
    passed: list[Request] = field(default_factory=list)
    spoils: Callable[[str], str] | None = None
    hours: int = 0
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> "Proxy":
        proxy = self

        class Handler(_Handler):
            pass

        Handler.proxy = proxy
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def recover(self) -> None:
        self.answers.clear()
        self.spoils, self.hours = None, 0

    def take(self, request: Request) -> Answer | None:
        """Return what to answer in the server's place, None if nothing."""
        for each in self.answers:
            if each.count > 0 and each.matches(request):
                each.count -= 1
                self.answered.append(request)
                return each
        self.passed.append(request)
        return None

    def shifted(self, text: bytes) -> bytes:
        """Return a text with its times as a clock tells them that is ahead."""
        ahead = timedelta(hours=self.hours)

        def later(found: re.Match[bytes]) -> bytes:
            time = datetime.fromisoformat(found[0].decode()) + ahead
            return time.isoformat().encode()

        def later_by_rfc(found: re.Match[bytes]) -> bytes:
            time = parsedate_to_datetime(found[0].decode()) + ahead
            return format_datetime(time.astimezone(UTC), usegmt=True).encode()

        return RFC_TIME.sub(later_by_rfc, TIME.sub(later, text)) if self.hours else text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    proxy: Proxy
    _upstream: HTTPConnection | None = None

    def handle(self) -> None:
        with suppress(OSError):  # the client has gone
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.proxy.take((self.command, self.path))
        if answer is None or answer.is_late:
            self._pass_on(body, is_answered=answer is None)
        elif answer.status is None:
            self.close_connection = True
        else:
            self._send(answer.status, "throttled", list(answer.headers.items()), answer.body)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # of any method
            return self._serve
        raise AttributeError(name)

    def _pass_on(self, body: bytes, is_answered: bool) -> None:
        headers = dict(self.headers.items())
        if self.proxy.spoils and "Authorization" in headers:
            headers["Authorization"] = self.proxy.spoils(headers["Authorization"])
        if self._upstream is None:
            self._upstream = HTTPConnection("127.0.0.1", self.proxy.upstream)
        self._upstream.putrequest(
            self.command, self.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in headers.items():
            self._upstream.putheader(name, value)
        try:
            self._upstream.endheaders(body)
            answer = self._upstream.getresponse()
            content = answer.read()
        except OSError:  # the server has ended the connection: the client sends it again
            self._upstream, self.close_connection = None, True
            return
        if not is_answered:
            self.close_connection = True
            return
        told = [(name, self._told(name, value)) for name, value in answer.getheaders()]
        if "xml" in (kind := answer.getheader("Content-Type") or "") or "json" in kind:
            content = self.proxy.shifted(content)
        self._send(answer.status, answer.reason, told, content)

    def _told(self, name: str, value: str) -> str:
        return self.proxy.shifted(value.encode()).decode() if name.lower() in TIMES else value

    def _send(self, status: int, reason: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status, reason)
        for name, value in headers:
            if name.lower() not in HOPS or (self.command, name.lower()) == ("HEAD", LENGTH):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
            body = b"" if status in (204, 304) else body
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
