"""What must hold of a cluster's tables, checked on their histories: decisions of `fsck`.

In: tables as traces (`trace`, `history`): plain values. Replays them by rules of its own: what is
checked is not asked.
Out: `findings`. Changes nothing.
"""
