"""What an append does while partitions of it wait for a broker, a leader or the metadata root.

In: the partitions that still wait, and what their last try met.
Out: probes, decisions where no controller makes them, warnings, how long to sleep.
"""
