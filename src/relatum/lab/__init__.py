"""Tools to study models: the paper's tables, probing, attention, errors, search for settings, comparison of runs."""
