"""A long run under mixed load and random faults, after which nothing may have grown: docs/soak.md."""
