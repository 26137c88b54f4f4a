"""For people who look: tables, histories and pictures of a cluster, and whether replicas agree.

Reading order: `report` (text tables; a topic as a table), `history` (who led a partition, who was
in sync, and why), `tables` (histories as DataFrames), `lanes` and `plots` (as a picture over time),
`grid` (the cluster as partition × broker), `grid_plot` and `page` (as a picture, as one HTML page),
`changes` (the difference of two moments in words), `replicas` (opens every replica and compares).
Pictures need the extra "plots". Decides nothing and writes nothing but pictures and pages.
"""
