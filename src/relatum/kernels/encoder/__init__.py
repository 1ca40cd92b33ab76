"""A frozen transformer in compiled code."""
