"""One replica: batches, epochs, operations, segments, fetches, merging, retention, compaction."""
