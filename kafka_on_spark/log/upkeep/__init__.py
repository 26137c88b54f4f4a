"""What upkeep decides for one replica: what is replaced by a merged file, what retention takes, and
what files may be deleted."""
