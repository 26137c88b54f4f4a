"""What must hold of a cluster's tables, checked on their histories: decisions of `fsck`.

Reading order: `findings` (what is said), `history` (what a table's log says, step by step),
`registers` and `metadata` (the metadata log, commit by commit), `replica` (one replica's table,
version by version), `partition` (a partition's replicas against each other and the metadata),
`orphans` (what no commit names). Replays by rules of its own, apart from those that wrote the
tables: what is checked is not asked. Takes plain values and changes nothing.
"""
