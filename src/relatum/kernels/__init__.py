"""Numeric code that knows nothing of language: a plain reference, and faster implementations of the same."""
