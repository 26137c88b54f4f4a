"""Scopes of the search of a table's log, each for one way in which cleaning could go wrong."""

from dataclasses import replace
from typing import Final

from tests.search.logs.log_search import LogScope
from tests.search.logs.log_world import Allowance

SLEEPERS: Final = LogScope(
    ("commit refresh", "refresh ask", "clean"), (2, 0, -1), 2, Allowance(commits=4)
)
"""A writer and a follower that were frozen, or are at any point, and a cleaner."""

FOLLOWERS: Final = replace(SLEEPERS, programs=SLEEPERS.programs[1:], since=SLEEPERS.since[1:])
"""The same without the writer: all of it is in `SLEEPERS`, whose writer may never go on."""

STRAYS: Final = LogScope(
    ("commit", "commit", "clean", "refresh"), (0, 1, -1, 1), 4, Allowance(commits=2)
)
"""Writers frozen at different versions, whose late commits stand where others were deleted."""

TWICE: Final = LogScope(
    ("commit commit", "commit", "clean"), (0, 0, -1), 0, Allowance(commits=5), commits_kept=0
)
"""A writer that commits twice, and one that is frozen meanwhile."""

UNSAID: Final = LogScope(
    ("commit refresh", "commit", "clean"), (0, 0, -1), 0, Allowance(commits=4, faults=1)
)
"""Puts whose answer is lost, on a disk."""

LATE: Final = LogScope(
    ("commit refresh", "commit"), (0, 0), 0, Allowance(commits=1, faults=2), is_local=False
)
"""Puts whose answer is lost, or that land later, on a store."""

MARGIN: Final = LogScope(
    ("commit refresh", "clean"), (0, -1), 0, Allowance(commits=5), interval=1, commits_kept=3
)
"""A writer that is frozen for more commits than are kept, or for fewer."""

OPENERS: Final = LogScope(
    ("refresh", "clean clean", "commit"), (-1, -1, 4), 5, Allowance(commits=4)
)
"""A process that opens a table while others clean it, and a stray."""

DAMAGED: Final = LogScope(
    ("refresh", "clean", "commit"), (-1, -1, 0), 4, Allowance(commits=3, damages=1)
)
"""A checkpoint that can't be read, at any moment."""

DYING: Final = LogScope(
    ("clean", "clean", "refresh"), (-1, -1, 3), 5, Allowance(commits=2, faults=1)
)
"""Two cleaners, of whom each may end or be frozen at each file, or can't delete one."""

CREATORS: Final = LogScope(("create", "create", "clean"), (-1, -1, -1), -1, Allowance(commits=5))
"""Two processes that create the table, and others that use it at once."""

CHECKPOINTERS: Final = LogScope(("commit checkpoint", "clean"), (3, -1), 3, Allowance(commits=3))
"""A process that writes a checkpoint and then cleans, and is frozen; and another cleaner."""

HINTS: Final = LogScope(("commit checkpoint",), (3,), 3, Allowance(commits=3, hints=1))
"""The same, and the hint misleads it."""

LISTERS: Final = LogScope(
    ("refresh", "refresh"), (-1, -1), 4, Allowance(commits=3, damages=1), interval=4
)
"""Processes that list a log while others commit."""

WIDE: Final = LogScope(
    ("commit refresh commit", "commit refresh", "clean clean", "clean", "refresh refresh"),
    (0, 1, -1, -1, 0),
    2,
    Allowance(commits=5, damages=1, faults=1),
    checkpoints_kept=3,
)
"""All at once: too much to be searched whole."""
