"""Writes a file again and again, for who reads it meanwhile: whole, or not at all."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kafka_on_spark.errors import InvalidRequestError

log = logging.getLogger(__name__)


class TextFile:
    """A file that is written every so often by a thread of its own, from now on.

    What is written goes to another name first, in the same folder, and is then renamed: who reads
    it finds all of one moment. What can't be written is logged once, and tried again; if it is the
    text that can't be made, the file is removed meanwhile: nobody takes old figures for new ones.

    At the end it is removed, too: figures of a process that has ended are none.
    """

    def __init__(self, path: Path, interval_s: float, text: Callable[[], str]) -> None:
        """Begin.

        Raises:
            InvalidRequestError: The file can't be written.
        """
        self._path = path
        self._interval_s = interval_s
        self._text = text
        self._ending = threading.Event()
        self._error = ""
        try:
            self._write()
        except OSError as error:
            raise InvalidRequestError(
                f"the figures can't be written to {path} ({error}): give another --textfile"
            ) from None
        self._thread = threading.Thread(target=self._repeat, name="textfile", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Have the file be removed. Its own thread does that: one whose disk hangs holds up nobody
        else."""
        self._ending.set()

    def close(self, within_s: float) -> bool:
        """End; return whether that was done within that time."""
        self.end()
        self._thread.join(max(within_s, 0))
        return not self._thread.is_alive()

    def _repeat(self) -> None:
        while not self._ending.wait(self._interval_s):
            self._renew()
        self._remove()

    def _renew(self) -> None:
        error = ""
        try:
            self._write()
        except Exception as failure:
            error = str(failure) or type(failure).__name__
            is_bug = not isinstance(failure, OSError)
            if is_bug:
                self._remove()
            if error != self._error:
                log.warning(
                    "the figures can't be written to %s: %s", self._path, error, exc_info=is_bug
                )
        if self._error and not error:
            log.info("the figures are written to %s again", self._path)
        self._error = error

    def _remove(self) -> None:
        with suppress(OSError):
            self._path.unlink()

    def _write(self) -> None:
        # A name that node_exporter does not read. A process that was killed leaves one at most.
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            temporary.write_text(self._text(), encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
