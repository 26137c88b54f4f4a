"""What systemd is told by a unit of Type=notify: ready, alive, ending. Source: sd_notify(3).

Not a package's: it is one datagram to a socket that the environment names.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

WATCHDOG_PART: Final = 3
"""Signs of life in the time after which systemd takes the process for hung."""


LOOK_S: Final = 1.0
"""How often it is told how it goes, where it asks for no more."""


class Supervisor:
    """The systemd that has started this process, if one has.

    Attributes:
        interval_s: How often it is to be told.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self.interval_s = _interval_s(environment)
        self._said = ""

    def ready(self) -> None:
        """Say that the process does its work."""
        self._say("READY=1")

    def ending(self) -> None:
        """Say that the process ends."""
        self._say("STOPPING=1")

    def alive(self) -> None:
        """Say that its loops move."""
        self._say("WATCHDOG=1")

    def status(self, words: str) -> None:
        """Say what it does, for `systemctl status`, if that is news."""
        if words != self._said:
            self._said = words
            self._say(f"STATUS={words}")

    def _say(self, words: str) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        # It may be gone: that is no reason to end.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.settimeout(1)
            told.sendto(words.encode(), address)


def _interval_s(environment: Mapping[str, str]) -> float:
    given, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not given.isdecimal() or (pid and pid != str(os.getpid())):
        return LOOK_S  # it wants no sign of life, or another process's
    return min(LOOK_S, int(given) / 1_000_000 / WATCHDOG_PART)
