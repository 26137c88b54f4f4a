"""What `tests/rigs/soak.py` runs: clients against one cluster for hours, and what their notes show.

`folder` names things, `clients` and `streams` are the processes, `watching` measures, `running` does
all of it in order, `checking` judges the records at the end and `report` the series: both are pure.
"""
