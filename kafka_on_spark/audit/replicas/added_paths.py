"""I26: a path is added to a table only under the fence in its name, and once.

Cleaners rest on it: a file that may be deleted once may be deleted for ever.
"""

from collections.abc import Iterable, Sequence

from kafka_on_spark.audit.history import FileEntry
from kafka_on_spark.log.batch import epoch_in_name


class AddedPaths:
    """The paths that a replica's history has removed."""

    def __init__(self) -> None:
        self._removed: set[str] = set()

    def follow(
        self, adds: Iterable[FileEntry], removes: Sequence[str], fence: int | None
    ) -> list[str]:
        """Follow one commit, which leaves the table fenced at `fence`; return what is wrong."""
        flaws = []
        for path in (entry.path for entry in adds):
            epoch = epoch_in_name(path)
            if epoch is not None and epoch != fence:
                flaws.append(
                    f"the file {path} is added by a commit of leadership {fence}, and may be"
                    " deleted by a cleaner"
                )
            if path in self._removed:
                flaws.append(f"the file {path} is added again, after the table removed it")
        self._removed.update(removes)
        return flaws
