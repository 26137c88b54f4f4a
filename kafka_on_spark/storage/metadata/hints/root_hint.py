"""Reads and writes `roots.json` on the metadata root: when each root was cleaned last.

A process that cleans a root tells the others by it, so that not each of them does. Any process
replaces the last hint, and its content is never trusted: bytes that can't be a hint count as none.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.calls.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.hints.sweep_hint import checked_int
from kafka_on_spark.storage.roots.local_files import UnsafeFileError
from kafka_on_spark.storage.roots.roots import RootFiles

NAME: Final = "roots.json"
ROOTS_MAX: Final = 1024
"""Roots in a hint: of more, each process cleans some that another has cleaned."""

_VERSION: Final = 1
_NAME_LENGTH_MAX: Final = 32


class FileRootHints:
    """RootHints in a file of the metadata root."""

    def __init__(self, metadata_root: str, options: StorageOptions) -> None:
        self._path = f"{metadata_root}/{NAME}"
        self._files = RootFiles(metadata_root, options)

    def read(self, cluster_id: str) -> Mapping[str, int]:
        """Return when each root of this cluster was cleaned; nothing if that can't be a hint."""
        try:
            content = self._files.read(self._path, SMALL_FILE_BYTES_MAX)
        except UnsafeFileError:
            return {}
        return {} if content is None else decode(content, cluster_id)

    def write(self, cluster_id: str, cleaned_at_ms: Mapping[str, int]) -> None:
        """Replace the hint."""
        self._files.write(self._path, encode(cluster_id, cleaned_at_ms), is_flushed=False)


def encode(cluster_id: str, cleaned_at_ms: Mapping[str, int]) -> bytes:
    """Return a hint's bytes, at most `SMALL_FILE_BYTES_MAX`."""
    newest = sorted(cleaned_at_ms.items(), key=lambda item: item[1], reverse=True)[:ROOTS_MAX]
    fields = {"version": _VERSION, "cluster_id": cluster_id, "cleaned_at_ms": dict(newest)}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(content: bytes, cluster_id: str) -> dict[str, int]:
    """Return when each root was cleaned, by a hint's bytes; nothing if they can't be one of this
    cluster."""
    try:
        fields = json.loads(content)
        if (fields["version"], fields["cluster_id"]) != (_VERSION, cluster_id):
            return {}
        return _cleaned_at_ms(fields["cleaned_at_ms"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _cleaned_at_ms(found: Any) -> dict[str, int]:
    if not isinstance(found, dict) or len(found) > ROOTS_MAX:
        raise ValueError("not the roots of a hint")
    if any(len(name) > _NAME_LENGTH_MAX for name in found):
        raise ValueError("not the name of a root")
    return {name: checked_int(at_ms) for name, at_ms in found.items()}
