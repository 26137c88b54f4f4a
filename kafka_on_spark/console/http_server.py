"""A server of HTTP for an application of ASGI in this process, at an address of its own: of the
console, and of `serve`."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from kafka_on_spark.base.errors import InvalidRequestError

GRACE_S: Final = 1
"""Answers under way have so long when a server ends."""

TICK_S: Final = 0.5
"""An idle server sleeps so long, and asks whether it is to end."""


class HttpServer(uvicorn.Server):
    """A server that leaves signals to its process. Before it waits for answers, it calls `ending`,
    which ends those that would go on."""

    def __init__(
        self, app: ASGIApp, *, ending: Callable[[], None] = lambda: None, **options: Any
    ) -> None:
        self._ending = ending
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
                **options,
            )
        )

    async def main_loop(self) -> None:
        """Tell the date until the end. uvicorn's own loop wakes ten times a second: that was an
        eighth of what an idle `serve` takes."""
        while not await self.on_tick(0):
            await asyncio.sleep(TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all answers."""
        self._ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take none."""
        yield


def listening(host: str, port: int, *, what: str, options: str) -> socket.socket:
    """Return a socket that listens; raise InvalidRequestError if the address can't be had. `what`
    is to be there, and `options` say where."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen()
    except (OSError, OverflowError) as error:
        taken.close()
        raise InvalidRequestError(
            f"{what} can't be had at {shown(host)}:{port} ({error}): give another {options}"
        ) from None
    return taken


def shown(host: str) -> str:
    """Return an address as a client writes it."""
    return f"[{host}]" if ":" in host else host
