"""A broker's root on an object store, for the quickstart: moves its objects away and back.

A bucket can't be unmounted. The root's identity goes first and comes back last, so that no process
takes a half-moved root for a disk that has lost its tables.
"""

from typing import Any, Final

from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.roots import StorageOptions, filesystem

AWAY: Final = ".away"


class StoreRoot:
    """One root; its credentials come from the environment."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._away = f"{url}{AWAY}"
        self._files: Any = filesystem(url, StorageOptions())

    def is_away(self) -> bool:
        """Return whether the root was taken away, and not given back."""
        return self._has(self._away) and not self._has(self.url)

    def take_away(self) -> None:
        """Move all objects elsewhere."""
        self._copy(self.url, self._away, META_PROPERTIES)
        self._files.rm_file(f"{self.url}/{META_PROPERTIES}")
        self._move_all(self.url, self._away)

    def give_back(self) -> None:
        """Undo `take_away`, also an interrupted one."""
        self._move_all(self._away, self.url)
        self._copy(self._away, self.url, META_PROPERTIES)
        self._files.rm_file(f"{self._away}/{META_PROPERTIES}")

    def _has(self, root: str) -> bool:
        return bool(self._files.exists(f"{root}/{META_PROPERTIES}"))

    def _move_all(self, source: str, target: str) -> None:
        start = f"{self._files._strip_protocol(source)}/"
        names = [path.removeprefix(start) for path in self._files.find(source)]
        for name in names:
            if name != META_PROPERTIES:
                self._copy(source, target, name)
                self._files.rm_file(f"{source}/{name}")

    def _copy(self, source: str, target: str, name: str) -> None:
        self._files.cp_file(f"{source}/{name}", f"{target}/{name}")
