"""For people who look: tables, histories and pictures of a cluster, and whether replicas agree.

Reading order: `report` (text tables; a topic as a table), `history` (who led a partition, who was
in sync, and why), `plots` (the same as a picture; needs the extra "plots"), `replicas` (opens
every replica and compares). Decides nothing and writes nothing but pictures.
"""
