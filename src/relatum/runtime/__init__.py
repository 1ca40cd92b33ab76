"""Runtimes: ways to read a batch of sentences with a model, one for each kind of machine, chosen by `base.select`."""
