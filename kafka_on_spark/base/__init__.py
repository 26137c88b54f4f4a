"""What everything stands on: errors, ids, settings, values."""
