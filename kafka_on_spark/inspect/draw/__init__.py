"""The parts of pictures and pages: grids, lanes, styles.

In: rows of `inspect/`.
Out: figures and HTML.
"""
