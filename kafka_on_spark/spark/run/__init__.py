"""What runs on executors and what runs it: tasks, frames, whether executors can.

In: picklable orders.
Out: one row an order; a task never raises what concerns one partition only. `tasks` are those of
processes that append and read, `keeping_tasks` all others.
"""
