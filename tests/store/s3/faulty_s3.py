"""An S3 server on the loopback interface that fails on request.

moto checks ``If-None-Match`` and writes in two steps, so two racing puts can both win; here all
requests that change something take one lock, which makes it the atomic store that commits rely
on.
"""

import io
import logging
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID  # type: ignore[attr-defined]
from moto.s3.models import s3_backends
from moto.server import create_backend_app  # type: ignore[attr-defined]
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

BUCKET = "kafka-on-spark"
HANG_SECONDS = 1.6
HASTY = "1s"
"""The timeout of clients whose answers come late: shorter than a hanging answer takes."""

PATIENT = "30s"
"""That of all others: a machine with too much to do is no store that hangs."""

RIVAL_SECONDS = 30
"""How long a put waits for another one of the same file, where it is to have one."""

FIRST_COMMIT = f"{0:020d}.json"

CANARY = "canary-Zq7wLk2vXs"
"""The secret key; it must be found nowhere."""

logging.getLogger("werkzeug").setLevel(logging.WARNING)


class Kind(Enum):
    ERROR_BEFORE = "500, not processed"
    ERROR_AFTER = "processed, then 500"
    CONFLICT_BEFORE = "409, not processed"
    CONFLICT_AFTER = "processed, then 409"
    BUSY = "503, not processed"
    DENIED = "403, not processed"
    HANG = "processed, the answer comes after the client's timeout"
    LATE = "processed only after the client's timeout"
    DROP_BEFORE = "connection dropped, not processed"
    DROP_AFTER = "processed, then the connection dropped"
    SLOW = "processed and answered within the client's timeout"


_STATUS = {
    Kind.ERROR_BEFORE: "500 Internal Server Error",
    Kind.ERROR_AFTER: "500 Internal Server Error",
    Kind.CONFLICT_BEFORE: "409 Conflict",
    Kind.CONFLICT_AFTER: "409 Conflict",
    Kind.BUSY: "503 Slow Down",
    Kind.DENIED: "403 Forbidden",
}
_UNPROCESSED = (Kind.ERROR_BEFORE, Kind.CONFLICT_BEFORE, Kind.BUSY, Kind.DENIED, Kind.DROP_BEFORE)
_LATE = (Kind.HANG, Kind.LATE)


@dataclass
class Fault:
    """A fault: the next `count` requests of `method` whose path ends with `suffix` fail."""

    kind: Kind
    method: str = "PUT"
    suffix: str = ".json"
    count: int = 1


@cache
def _application() -> Any:
    """Return moto's S3, without its dispatcher: that lists moto's folder of services for each request,
    which takes a fifth of a request's time."""
    return create_backend_app("s3")


def _stored() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@dataclass
class FaultyS3:
    """The server, as a WSGI application.

    Attributes:
        endpoint: Its URL.
        faults: Orders that are still open.
        struck: The faults that were met, in order.
        requests: Method and path of each request, in order.
        asking: The requests among them that send their body only once they are told to.
        before_put: What to do once, before the next commit is put.
        is_conditional: Whether ``If-None-Match`` is honoured.
        is_atomic: Whether looking and writing are one step. If not, the first two that put one commit
            look before either writes; a table's first commit has no rival.
        bucket: The one that is made at first.
        key_id: Whom it knows: everybody else is denied.
        storm: Kinds that strike in turn, one in each `storm_every` requests.
        latency_s: How long each request takes before it is looked at.
    """

    endpoint: str = ""
    faults: list[Fault] = field(default_factory=list)
    struck: list[Kind] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    asking: list[str] = field(default_factory=list)
    before_put: Callable[[], Any] | None = None
    is_conditional: bool = True
    is_atomic: bool = True
    bucket: str = BUCKET
    key_id: str = "test"
    storm: tuple[Kind, ...] = ()
    storm_every: int = 7
    latency_s: float = 0.0
    _put: set[str] = field(default_factory=set)
    _looks: Counter[str] = field(default_factory=Counter)
    _looked: threading.Condition = field(default_factory=threading.Condition)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _app: Any = field(default_factory=_application)

    def order(self, kind: Kind, **which: Any) -> None:
        """Have the next matching request fail."""
        self.faults.append(Fault(kind, **which))

    def recover(self) -> None:
        """Have nothing fail any more."""
        self.faults.clear()
        self.storm = ()

    def objects(self, folder: str) -> dict[str, bytes]:
        """Return what is stored below a folder (a URL), by path in it: no request, and so no fault."""
        _, _, bucket, prefix = f"{folder}/".split("/", 3)
        stored = _stored().get_bucket(bucket).keys.items()
        return {name[len(prefix) :]: each.value for name, each in stored if name.startswith(prefix)}

    def options(self, kind: Kind | None = None, **others: str) -> dict[str, str]:
        """Return the storage options of a client. `kind`: of the fault that it is to meet; where the
        answer comes late, it gives up soon."""
        timeout = HASTY if kind in _LATE else PATIENT
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": CANARY,
            "AWS_REGION": "us-east-1",
            "timeout": timeout,
            "connect_timeout": timeout,
            "max_retries": "1",
            **others,
        }

    def _take(self, environ: dict[str, Any]) -> Kind | None:
        with self._lock:
            self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
            self.asking += self.requests[-1:] if "HTTP_EXPECT" in environ else []
            if not self._knows(environ):
                return Kind.DENIED
            if self.storm and len(self.requests) % self.storm_every == 0:
                self.struck.append(self.storm[len(self.struck) % len(self.storm)])
                return self.struck[-1]
            for fault in self.faults:
                if environ["REQUEST_METHOD"] == fault.method and (
                    environ["PATH_INFO"].endswith(fault.suffix)
                ):
                    fault.count -= 1
                    if fault.count == 0:
                        self.faults.remove(fault)
                    self.struck.append(fault.kind)
                    return fault.kind
        return None

    def _knows(self, environ: dict[str, Any]) -> bool:
        return f"Credential={self.key_id}/" in environ.get("HTTP_AUTHORIZATION", "")

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        time.sleep(self.latency_s)
        # The next request on a connection stands behind this one's body.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        kind = self._take(environ)
        if self.before_put and environ["REQUEST_METHOD"] == "PUT":
            act, self.before_put = self.before_put, None
            act()
        if kind is Kind.LATE:
            time.sleep(HANG_SECONDS)
        if kind is Kind.SLOW:
            time.sleep(0.3)
        answer = _Answer()
        body = b"" if kind in _UNPROCESSED else self._process(environ, answer)
        if kind is Kind.HANG:
            time.sleep(HANG_SECONDS)
        if kind in (Kind.DROP_BEFORE, Kind.DROP_AFTER):
            environ["werkzeug.socket"].shutdown(2)
            start("200 OK", [])
            return [b""]
        if kind in _STATUS:
            start(_STATUS[kind], [("Content-Length", "0")])
            return [b""]
        start(*answer.parts)
        return [body]

    def _process(self, environ: dict[str, Any], answer: "_Answer") -> bytes:
        if not self.is_conditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if not self.is_atomic and "HTTP_IF_NONE_MATCH" in environ:
            if environ["PATH_INFO"] in self._put:
                answer("412 Precondition Failed", [("Content-Type", "application/xml")])
                return b"<Error><Code>PreconditionFailed</Code></Error>"
            self._wait_for_a_rival(environ["PATH_INFO"])
            self._put.add(environ["PATH_INFO"])
            del environ["HTTP_IF_NONE_MATCH"]
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return b"".join(self._app(environ, answer))
        with self._lock:
            return b"".join(self._app(environ, answer))

    def _wait_for_a_rival(self, path: str) -> None:
        """Wait until another request, too, has found that a commit is not there."""
        if not path.endswith(".json") or path.endswith(FIRST_COMMIT):
            return
        with self._looked:
            self._looks[path] += 1
            self._looked.notify_all()
            self._looked.wait_for(lambda: self._looks[path] > 1, RIVAL_SECONDS)


class _Answer:
    """Takes what the application would have sent first."""

    parts: tuple[Any, ...] = ()

    def __call__(self, *parts: Any) -> None:
        self.parts = parts


class _Server(ThreadedWSGIServer):
    """Keeps a connection for the client's next request, as a store does: a new one takes a sixth of a
    request's time."""

    def __init__(self, store: FaultyS3) -> None:
        super().__init__("127.0.0.1", 0, store, handler=_Connection)
        self._connections: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Be gone: cut the connections that are kept, too."""
        super().server_close()
        for each in list(self._connections):
            with suppress(OSError):  # its client has closed it
                each.shutdown(socket.SHUT_RDWR)


class _Connection(WSGIRequestHandler):
    wbufsize = -1
    protocol_version = "HTTP/1.1"

    def run_wsgi(self) -> None:
        """Answer one request. Werkzeug's own way closes the connection after it."""
        answer: Any = _Answer()
        body = b"".join(self.server.app(self.make_environ(), answer))
        status, headers = answer.parts
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)
        self.wfile.flush()


@contextmanager
def faulty_s3(bucket: str = BUCKET, key_id: str = "test") -> Iterator[FaultyS3]:
    """Run a server with one empty bucket, on a free port, for clients with the key.

    Servers of a process share what is stored, so what an earlier one left in the bucket goes
    first: servers that run at once have a bucket each.
    """
    _stored().buckets.pop(bucket, None)
    s3_backends.bucket_accounts.pop(bucket, None)
    store = FaultyS3(bucket=bucket, key_id=key_id)
    server = _Server(store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        _make_bucket(store)
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_bucket(store: FaultyS3) -> None:
    request = urllib.request.Request(
        f"{store.endpoint}/{store.bucket}",
        method="PUT",
        headers={
            "Authorization": f"AWS4-HMAC-SHA256 Credential={store.key_id}/20130101/us-east-1/s3/"
            "aws4_request, SignedHeaders=host, Signature=0"
        },
    )
    urllib.request.urlopen(request).close()
