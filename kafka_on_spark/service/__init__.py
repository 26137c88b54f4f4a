"""Loops and order: what is asked of the ports, when, and again.

In: calls from above and a set of ports.
Out: answers and commits. Holds state and order; each rule that it applies stands on a lower floor.
"""
