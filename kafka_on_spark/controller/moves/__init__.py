"""Where replicas shall stand: reassignments, plans, balance.

In: an image, sizes, and the wanted replicas.
Out: the records of a move's next step, or a plan for people.
"""
