"""For people: tables, histories and pictures of a cluster, and whether replicas agree.

In: an open cluster, or what its histories say.
Out: DataFrames, text, pictures (the extra "plots") and one HTML page. Decides nothing.
"""
