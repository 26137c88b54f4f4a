"""A process that keeps a cluster going for ever: it controls, or stands by, and runs rounds.

In: a metadata service, a controller's loop, a round of replication.
Out: loops that end when they are told to, and what they have looked at, as answers for probes.
Begin with `serving` (the loops), then `health` (what is said of them).
"""
