"""Adapters to files and Delta tables: the only code that knows either.

In: the ports' calls.
Out: the ports' values and errors. Begin with `roots/roots` and `delta/conditional_commit`.
"""
