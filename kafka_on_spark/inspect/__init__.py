"""For people: histories as DataFrames, two pictures, and SQL.

In: an open cluster, or its histories.
Out: DataFrames and pictures (the extra "plots"). Decides nothing.
"""
