"""The instruments of the benchmarks: a scripted upstream, a load generator, and the servers under test."""
