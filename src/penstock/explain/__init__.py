"""What happened in a turn, from what the store holds of it."""
