"""The context of a process: metadata, tables, clock, tasks."""
