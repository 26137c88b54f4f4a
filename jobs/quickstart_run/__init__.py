"""The parts of `jobs/quickstart.py`: its steps, its folder, its records, its checks, its output.

`steps` calls the others. `checks` holds pure functions of Arrow tables: tests plant faults in them.
"""
