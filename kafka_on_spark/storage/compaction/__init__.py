"""The cleaner's part that touches files: last offsets of keys in bounded memory, and rewriting.

In: a replica's segments and the offsets of a decision. Out: a segment without the records that go.
"""
