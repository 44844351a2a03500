"""Run a recorded turn through the current code and compare the results."""
