"""Reads and writes `roots.json` on a metadata root: when each root was cleaned last.

A process that cleans a root tells the others by it, so that not each of them does. Any process
replaces the last hint, and its content is never trusted: bytes that can't be a hint count as none.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from kafka_on_spark.storage.metadata.hints.hint_file import HintFile, HintRoots
from kafka_on_spark.storage.metadata.hints.sweep_hint import checked_int

NAME: Final = "roots.json"
ROOTS_MAX: Final = 1024
"""Roots in a hint: of more, each process cleans some that another has cleaned."""

_VERSION: Final = 1
_NAME_LENGTH_MAX: Final = 32


class FileRootHints:
    """RootHints in a file of one of the cluster's metadata roots."""

    def __init__(self, roots: HintRoots) -> None:
        self._file = HintFile(roots, NAME)

    def read(self, cluster_id: str) -> Mapping[str, int]:
        """Return when each root of this cluster was cleaned; nothing if that can't be a hint."""
        found = (decode(each, cluster_id) for each in self._file.contents())
        return next((each for each in found if each), {})

    def write(self, cluster_id: str, cleaned_at_ms: Mapping[str, int]) -> None:
        """Replace the hint."""
        self._file.write(encode(cluster_id, cleaned_at_ms))


def encode(cluster_id: str, cleaned_at_ms: Mapping[str, int]) -> bytes:
    """Return a hint's bytes, at most `file_limits.SMALL_FILE_BYTES_MAX`."""
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
