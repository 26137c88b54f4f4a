"""Calls about files and stores: deadlines, the threads they run in, what their errors mean.

In: a function and how long it may take.
Out: its value, or one of our errors; nobody waits for a call that hangs.
"""
