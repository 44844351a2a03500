"""Explain what happened in a turn, from its records in the store."""
