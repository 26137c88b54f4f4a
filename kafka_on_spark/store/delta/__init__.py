"""A Delta table that is followed, committed to, checkpointed and cleaned."""
