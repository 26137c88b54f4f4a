"""`produce`: lines, JSON or files become records.

In: standard input or files, in chunks. Out: appends, and what was acknowledged. Begin with
`produce` (the verb); `chunks` reads, `batches` makes Arrow of it, `appending` appends.
"""
