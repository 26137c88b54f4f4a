"""`consume`: prints records as they come, or up to an end.

In: a consumer's records. Out: lines in the format that is asked for. Begin with `consume` (the
verb); `starts` says where to begin and end, `printing` has the loop.
"""
