"""HDFS as a store, by hdfs-native: what `ObjectFiles` asks of one. Imported where HDFS is used.

A file is written under a temporary name and forced to the data nodes' disks. Then it gets its name
by a rename that replaces nothing, which the name node decides alone: one of racing writers wins.
Nobody opens another one's temporary file, so nobody waits for the lease of a writer that has died.
What is deleted is gone: this client moves nothing into the trash.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from os.path import dirname
from secrets import randbits
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from hdfs_native import Client, WriteOptions

from kafka_on_spark.store.deadlines import DaemonThreads

READERS: Final = 16
"""Files that one call reads at once."""

_TAG_MIN: Final = 2**61
"""Above all times, in ms: reads leave a time of access as it is that lies in the future."""

_UNCHANGED: Final = 2**64 - 1
"""The protocol's -1."""

_SETTINGS: Final = {"dfs.client.failover.max.attempts": "5"}
"""Half a minute; the client's own fifteen attempts outlast a call by far."""

_TRACE: Final = re.compile(r"(\\n|\n)(\\t|\t)at .*", re.DOTALL)
_DENIED: Final = re.compile("AccessControlException|SASL error: |SASL mechanism|GSSAPI error: ")


class HdfsFiles:
    """The files of one name node or nameservice. User, Kerberos and the rest of the configuration
    are the client's own: HADOOP_USER_NAME, KRB5CCNAME, HADOOP_CONF_DIR.

    A file's name node shows no id of it, and two files of a name may have one length and be closed
    within a millisecond. So each file gets a random time of access, which is its tag.
    """

    def __init__(self, *, host: str, **_: bool) -> None:
        self._client = Client(f"hdfs://{host}", _SETTINGS)

    def info(self, path: str) -> dict[str, Any]:
        with _in_a_sentence():
            found = self._client.get_file_info(_below_host(path))
        if found.isdir:
            raise FileNotFoundError(path)
        return {
            "size": found.length,
            "ETag": str(found.access_time),
            "mtime": datetime.fromtimestamp(found.modification_time / 1000, UTC),
        }

    def ls(self, path: str, detail: bool) -> list[dict[str, Any]]:
        with _in_a_sentence():
            found = list(self._client.list_status(_below_host(path)))
        return [{"name": each.path, "size": each.length} for each in found]

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        """Return a part of a file, fewer bytes if it is shorter."""
        with _in_a_sentence():
            file = self._client.read(_below_host(path))
            if start >= len(file):  # the client would panic
                return b""
            file.seek(start)
            content: bytes = file.read(end - start)
            return content

    def cat_ranges(
        self, paths: Sequence[str], start: int, end: int, *, on_error: str
    ) -> list[bytes | Exception]:
        """Return this part of each file, or what was raised for it."""

        def read(path: str) -> bytes | Exception:
            try:
                return self.cat_file(path, start, end)
            except Exception as error:
                return error

        with DaemonThreads(READERS, "hdfs") as readers:
            return list(readers.map(read, paths))

    def pipe_file(self, path: str, content: Any, mode: str = "overwrite") -> dict[str, str]:
        """Put a file whole or not at all; with the mode "create", unless there is one. Return its
        tag.

        Raises:
            FileExistsError: There is one.
            OSError, RuntimeError: It may be put.
        """
        target = _below_host(path)
        temporary, tag = f"{dirname(target)}/_{uuid4().hex}.tmp", _TAG_MIN + randbits(61)
        with _in_a_sentence():
            try:
                self._write(temporary, content)
                self._client.set_times(temporary, _UNCHANGED, tag)
                self._client.rename(temporary, target, mode != "create")
            except (OSError, RuntimeError):
                with suppress(OSError, RuntimeError):  # a cleaner removes it
                    self._client.delete(temporary)
                raise
        return {"ETag": str(tag)}

    def _write(self, temporary: str, content: Any) -> None:
        try:
            file = self._client.create(temporary, WriteOptions(create_parent=True))
        except FileExistsError as error:  # the client asked again: no other writer has this name
            raise OSError(str(error)) from None
        if len(content):
            file.write(content)
            file.hsync()
        file.close()

    def rm_file(self, path: str) -> None:
        self.rm(path)

    def rm(self, path: str, recursive: bool = False) -> None:
        with _in_a_sentence():
            self._client.delete(_below_host(path), recursive)


def _below_host(path: str) -> str:
    return urlsplit(path).path or "/"


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Raise what the client raises without the name node's stack trace."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        text = _TRACE.sub("", str(error)).replace('RPCError("', "").replace('", "', ": ")
        kind: type[Exception] = type(error)
        if not isinstance(error, FileNotFoundError | FileExistsError) and _DENIED.search(text):
            kind = PermissionError
        raise (NotADirectoryError if "(is not a directory)" in text else kind)(text) from None
