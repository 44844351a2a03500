"""One response stream: deltas in, lawful events out, and the checker that verifies them."""
