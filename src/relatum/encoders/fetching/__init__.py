"""Encoders put together from the packages of registries that carry their weights."""
