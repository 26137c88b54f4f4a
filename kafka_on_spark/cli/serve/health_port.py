"""The port at which a serving process answers by HTTP: /healthz and /readyz, and its /metrics."""

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.service.serve.health import Answer
from kafka_on_spark.version import __version__

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10
"""For so long a client may take over its request: one that says nothing keeps a thread."""

Page = Callable[[], tuple[int, str, bytes]]
"""Returns a status, a content type and a body."""


def probe_page(ask: Callable[[], Answer]) -> Page:
    """Return a page of a probe: 200 if its answer is "yes", and else 503; JSON says why."""

    def page() -> tuple[int, str, bytes]:
        answer = ask()
        body = json.dumps({"ok": answer.is_well, **answer.body}, indent=2) + "\n"
        return 200 if answer.is_well else 503, "application/json", body.encode()

    return page


def metrics_page(text: Callable[[], str], kind: str) -> Page:
    """Return a page of figures, of that content type."""

    def page() -> tuple[int, str, bytes]:
        return 200, kind, text().encode()

    return page


class HealthPort:
    """A server of some pages in a thread of its own, from now on.

    Attributes:
        port: The one that it has, where 0 was asked for.
        address: Where it answers, as a client writes it.
    """

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        """Listen.

        Raises:
            InvalidRequestError: The address can't be had.
        """
        shown = f"[{host}]" if ":" in host else host
        try:
            self._server = (_Server6 if ":" in host else _Server)((host, port), _handler(pages))
        except (OSError, OverflowError) as error:
            raise InvalidRequestError(
                f"the health port can't be had at {shown}:{port} ({error}): give another"
                " --health-port or --health-host"
            ) from None
        self.port: int = self._server.server_address[1]
        self.address = f"http://{shown}:{self.port}"
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Answer nothing more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away; all else is an error of this program."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a request is not answered")


class _Server6(_Server):
    address_family = socket.AF_INET6


def _answered(pages: Mapping[str, Page], target: str) -> tuple[int, str, bytes]:
    try:
        page = pages.get(urlsplit(target).path)
    except ValueError:  # a client's words, which are no URL
        page = None
    if page is None:
        known = " and ".join(pages)
        return 404, "text/plain", f"there are {known}\n".encode()
    try:
        return page()
    except Exception:
        log.exception("the page %s has failed", target)
        return 500, "text/plain", b"this page has failed: the log says why\n"


def _handler(pages: Mapping[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_SECONDS
        server_version = f"kafka-on-spark/{__version__}"
        sys_version = ""

        def do_GET(self) -> None:
            status, kind, body = _answered(pages, self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Write no line a probe."""

    return Handler
