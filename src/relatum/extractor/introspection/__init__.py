"""Introspection of a model: the findings of every layer in a text."""
