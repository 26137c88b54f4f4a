"""What a root is reached with: storage options, named credentials, the words of each client.

In: the mapping that a user gives, and the environment.
Out: options in the words of delta-rs, fsspec and Hadoop, without a credential in a plan or a log.
"""
