"""Scopes in which logs are kept small: merged, deleted from the front, compacted."""

from dataclasses import replace

from tests.search.scope import Scope

MERGES = Scope(values="ab", rounds=0, merges="1")
"""Two appends, both of them zombies, merges of the first leader's files, and an election."""

FOLLOWER = Scope(values="a", logs=("x", "x", "x"), elections=0, has_late_rounds=False, merges="1")
"""Merges while a follower leaves the ISR and comes back: it takes the rest of a merged file."""

EXPIRED = Scope(values="ab", logs=("x", "x", "x"), rounds=0, merges="1", is_retry=True, expiries=1)
"""Two tries of one append, whose producer's id expires while the log is merged."""

CUT = Scope(
    values="c",
    replicas="1 2",
    logs=("ab", "a", ""),
    isr="1",
    elections=2,
    has_recovery=True,
    is_unclean=True,
    has_late_rounds=False,
    merges="1",
)
"""The only replica in sync has merged what the other is elected without, and comes back."""

RETENTION = Scope(
    values="c",
    replicas="1 2",
    logs=("ab", "a", ""),
    isr="1",
    has_late_rounds=False,
    has_late_appends=False,
    has_retention=True,
)
"""A decision of retention with a follower behind, an append, and an election."""

MERGED_RETENTION = replace(RETENTION, values="", merges="1")
"""The same of a log that is merged meanwhile."""

JOINING = Scope(
    values="",
    logs=("aB", "aB", "a"),
    isr="1 2",
    fenced="3",
    elections=0,
    fencings=0,
    has_late_rounds=False,
    has_compaction=True,
    compacts="1 2 3",
)
"""Decisions of compaction, to the last tombstone, and a follower that comes back and has a record that
one of them deletes."""

COMPACTION = Scope(
    values="c",
    replicas="1 2",
    logs=("ab", "ab", ""),
    rounds=0,
    has_compaction=True,
    compacts="2",
)
"""A decision of compaction, a replica that applies it, an append, and an election."""

PART_COMPACTED = Scope(
    values="",
    replicas="1 2",
    logs=("aBx", "a", ""),
    isr="1",
    elections=2,
    has_recovery=True,
    is_unclean=True,
    has_late_rounds=False,
    has_compaction=True,
    compacts="1 2",
)
"""Decisions of compaction, and an unclean election below them."""
