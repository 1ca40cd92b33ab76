"""Benchmarks: each checks that the work is right before it says how long it took."""
