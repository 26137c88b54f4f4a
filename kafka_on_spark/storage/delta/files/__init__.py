"""The files of a Delta log: their names, how they are put and read, and what their bytes say.

In: a table's folder, and actions to encode.
Out: commit files and checkpoints as values, or what is damaged in them.
"""
