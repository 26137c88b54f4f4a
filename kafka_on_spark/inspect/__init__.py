"""For people: histories as DataFrames, two pictures, SQL, and comparisons of a cluster's replicas.

In: an open cluster, or its histories.
Out: DataFrames and pictures (the extra "plots"). Decides nothing.
"""
