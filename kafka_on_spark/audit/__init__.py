"""What must hold of a cluster's tables, checked on their histories: the decisions of `fsck`.

In: tables as steps and traces (`history`, `trace`), which are plain values. The audit replays them
by rules of its own, and calls none of the rules that it checks. The first line of a module names
the invariants that it checks, as in docs/architecture.md.
Out: `findings`. An audit changes nothing.
"""
