"""Attacks on real gateway processes (`make hardening`)."""
