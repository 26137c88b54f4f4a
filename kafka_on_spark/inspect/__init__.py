"""For people: tables, histories and pictures of a cluster, and comparisons of its replicas.

In: an open cluster, or its histories.
Out: DataFrames, text, pictures (the extra "plots") and one HTML page. Decides nothing.
"""
