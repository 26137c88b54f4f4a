"""Calls to files and stores: their deadlines, the threads they run in, what their errors mean.
Beside them what the system itself gives: its clocks, and random ids.

In: a function and how long it may take.
Out: its value, or one of our errors; no caller waits for a call that hangs.
"""
