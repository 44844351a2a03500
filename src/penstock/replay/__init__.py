"""Run a recorded turn through the present code and compare."""
