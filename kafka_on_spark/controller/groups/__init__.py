"""Groups with members: who joins and leaves, who shall own which partitions, and who does.

In: the image, and what one member asks. Out: records; any process may decide, by the same rules.
"""
