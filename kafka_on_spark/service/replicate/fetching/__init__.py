"""One follower's fetch from its leader: adopt, copy, commit, report.

In: an order for one follower, planned on one image.
Out: a report as a row: log end, lag, chain digest, or an error code.
"""
