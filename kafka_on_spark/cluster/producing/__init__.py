"""The producer that users hold: `Cluster.producer` makes one.

In: records, one at a time, from any thread of this process.
Out: futures and callbacks. `producer` checks a record, `sender` and `retrying` have the threads,
`appending` tries.
"""
