"""The context of a process: metadata, store, clock, tasks."""
