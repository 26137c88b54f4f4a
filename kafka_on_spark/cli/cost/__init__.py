"""`cost`: what operations cost by a price list that the user gives.

In: a ledger that a process has written, or a call of another verb; a price list.
Out: a table or JSON, in money. Begin with `cost`.
"""
