"""For people who look: histories and pictures of a cluster, from its metadata alone.

Reading order: `history` (who led a partition, who was in sync, and why), `plots` (the same as
pictures; needs the extra "plots"). Decides nothing and writes nothing.
"""
