"""What an append does while partitions of it wait for a broker, a leader or the metadata root.

In: the partitions that still wait, and what their last try met.
Out: probes, small passes that decide where no controller does, warnings, how long to sleep.
"""
