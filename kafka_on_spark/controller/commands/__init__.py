"""Commands and the process that may decide them: requests through the log, the lease.

In: an image and a command, with the controller epoch of the process that decides.
Out: records that carry that epoch, and the answer to the command.
"""
