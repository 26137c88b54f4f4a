"""Consumer groups: members, assignments, heartbeats, saved offsets."""
