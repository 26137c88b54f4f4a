"""Calls to files and stores: their deadlines, the threads they run in, what their errors mean.

In: a function and how long it may take.
Out: its value, or one of our errors; no caller waits for a call that hangs.
"""
