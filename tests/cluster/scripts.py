"""Runs functions, each in a process of its own that is ended if it hangs.

The processes are forks of a server that has imported what they use: a new interpreter takes a second
of a processor for that, which is longer than most of them take.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

PRELOADED = ["tests.cluster.disks", "tests.store.committers"]
"""What any process runs that a test starts so. A process of tests has one server, which has imported
what the first test asked for: all else, each process that it starts would import anew."""


def processes_that_start() -> ForkServerContext:
    """Return where processes come from that have imported delta-rs and not used it.

    A fork of a process that used it panics, and a new interpreter takes a second.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


class Started:
    """A function that runs in such a process, in a session of its own."""

    def __init__(self, body: Callable[..., object], *arguments: object) -> None:
        context = processes_that_start()
        ours, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_printing, args=(theirs, body, arguments))
        self.process.start()
        theirs.close()
        self.stdout = os.fdopen(os.dup(ours.fileno()), encoding="utf-8")
        ours.close()
        self._has_ended = False

    def rest(self, seconds: float) -> str:
        """Return what it prints until it ends; it is killed if it goes on for so long."""
        killer = threading.Timer(seconds, self.end)
        killer.start()
        try:
            with self.stdout:
                said = self.stdout.read()
        finally:
            killer.cancel()
        self.process.join()
        self._has_ended = True
        return said

    def end(self) -> None:
        """Kill it, if it has not ended, and those that it has forked; also while they are stopped."""
        if self._has_ended:
            return  # others may have its number now
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # they have ended, or it has no group of its own yet
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()


def _printing(printed: Connection, body: Callable[..., object], arguments: tuple[object]) -> None:
    os.setsid()
    os.dup2(printed.fileno(), 1)
    printed.close()
    body(*arguments)
    sys.stdout.flush()
    # All is said and closed. Seen once in some hundred ends of a process under load: a native
    # thread of a library that is torn down with the interpreter aborts it.
    os._exit(0)
