"""A store in memory that answers in ticks: all requests that are out are answered together, once
nothing in this process goes on without an answer. So how many ticks a call takes is its longest chain
of waits, whatever a request takes and however busy the machine is.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from errno import EIO
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fsspec.asyn import AsyncFileSystem

from kafka_on_spark.store import roots, s3_files

LOOK_SECONDS = 0.002
"""Between two looks that find every thread asleep, and none woken meanwhile, nothing goes on."""


@dataclass(frozen=True)
class Request:
    """What was asked in one request, and in which tick it was answered."""

    tick: int
    kind: str
    path: str


@dataclass
class _Waiting:
    kind: str
    path: str
    effect: Callable[[], Any]
    answer: asyncio.Future[Any]


class TickingStore(AsyncFileSystem):  # type: ignore[misc]  # it has no types
    """A file system as fsspec has it, of as many roots as ask for it.

    Attributes:
        is_counting: Ticks are waited for; else each request is answered at once.
        tick: How many times requests have been answered.
        requests: What was answered, in order.
        away: The beginnings of paths whose requests fail.
    """

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.is_counting = False
        self.tick = 0
        self.requests: list[Request] = []
        self.away: tuple[str, ...] = ()
        self._objects: dict[str, dict[str, Any]] = {}
        self._puts = 0
        self._lock = threading.Lock()
        self._out: list[_Waiting] = []
        self._is_asked = threading.Event()
        self._is_open = True
        self._ticker = threading.Thread(target=self._run, daemon=True)
        self._ticker.start()

    def close(self) -> None:
        self._is_open = False
        self._is_asked.set()
        self._ticker.join()

    # What a client asks

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        answer: bytes = await self._ask("GET", path, lambda: self._bytes(path, start or 0, end))
        return answer

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await self._ask("HEAD", path, lambda: self._found(path))
        return answer

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = await self._ask("LIST", path, lambda: self._listed(path))
        return answer

    async def _pipe_file(
        self, path: str, value: bytes, mode: str = "overwrite", **_: Any
    ) -> dict[str, Any]:
        answer: dict[str, Any] = await self._ask("PUT", path, lambda: self._put(path, value, mode))
        return answer

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._ask("DELETE", path, lambda: self._objects.pop(_name(path), None))

    async def _rm(self, path: str, recursive: bool = False, **_: Any) -> None:
        def remove() -> None:
            for name in [each for each in self._objects if each.startswith(f"{_name(path)}/")]:
                del self._objects[name]

        await self._ask("DELETE", path, remove)

    # What the store does at a tick

    def _found(self, path: str) -> dict[str, Any]:
        try:
            return self._objects[_name(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    def _bytes(self, path: str, start: int, end: int | None) -> bytes:
        content: bytes = self._found(path)["content"]
        if start >= len(content):
            raise ValueError("InvalidRange")
        return content[start:end]

    def _put(self, path: str, content: bytes, mode: str) -> dict[str, Any]:
        name = _name(path)
        if mode == "create" and name in self._objects:
            raise FileExistsError(path)
        self._puts += 1
        self._objects[name] = {
            "name": name,
            "size": len(content),
            "content": bytes(content),
            "ETag": f'"{self._puts}"',
            "LastModified": datetime.now(UTC),
        }
        return {"ETag": f'"{self._puts}"'}

    def _listed(self, path: str) -> list[dict[str, Any]]:
        folder = f"{_name(path)}/"
        found: dict[str, dict[str, Any]] = {}
        for name, each in self._objects.items():
            if name.startswith(folder):
                first, slash, _ = name.removeprefix(folder).partition("/")
                found[first] = {"name": folder + first, "size": 0} if slash else each
        if not found:
            raise FileNotFoundError(path)
        return list(found.values())

    # Ticks

    async def _ask(self, kind: str, path: str, effect: Callable[[], Any]) -> Any:
        waiting = _Waiting(kind, _name(path), effect, asyncio.get_running_loop().create_future())
        with self._lock:
            self._out.append(waiting)
        self._is_asked.set()
        return await waiting.answer

    def _run(self) -> None:
        while self._is_open:
            self._is_asked.wait()
            before: dict[str, str] | None = None
            while self.is_counting and ((now := _threads_asleep()) is None or now != before):
                before = now
                time.sleep(LOOK_SECONDS)
            with self._lock:
                out, self._out = self._out, []
                self._is_asked.clear()
            self.tick += bool(out)
            s3_files._told["bucket"] = (
                formatdate(),
                time.monotonic_ns(),
            )  # as each answer of S3 says
            for each in out:
                self.requests.append(Request(self.tick, each.kind, each.path))
                try:
                    if each.path.startswith(self.away):
                        raise OSError(EIO, "away")
                    answer = partial(each.answer.set_result, each.effect())
                except (OSError, ValueError) as error:
                    answer = partial(each.answer.set_exception, error)
                self.loop.call_soon_threadsafe(answer)


def _name(path: str) -> str:
    return path.rpartition("://")[2].rstrip("/")


def _threads_asleep() -> dict[str, str] | None:
    """Return how often each other thread has slept so far, or None if one does not sleep now."""
    own = str(threading.get_native_id())
    found = {}
    for task in Path("/proc/self/task").iterdir():
        if task.name == own:
            continue
        try:
            status = (task / "status").read_text()
        except OSError:
            return None  # it has just ended
        lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if lines["State"][0] != "S":
            return None
        found[task.name] = lines["voluntary_ctxt_switches"]
    return found


@contextmanager
def ticking_store() -> Iterator[TickingStore]:
    """Have all stores of this process be one that ticks."""
    store = TickingStore()
    with patch.object(roots, "filesystem", lambda url, options: store):
        yield store
    store.close()
