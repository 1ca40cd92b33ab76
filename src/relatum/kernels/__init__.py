"""Numeric code that knows nothing of language: a plain reference, and what computes the same faster."""
