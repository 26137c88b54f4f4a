"""Compaction of one log: which records stay, and in which steps a replica removes the others.

In: a log's records or segments, and the offsets of a decision. Out: what is kept, and the next
group of segments to rewrite. No keys are held here: that is `storage`'s, in bounded memory.
"""
