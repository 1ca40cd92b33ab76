"""The errors of a system: their kinds, where they are, and what each kind costs.

`analysis.analyse` is the entry point: pairs of gold and found documents become an `ErrorAnalysis`, which `tables` shows
and which has a `to_dict`. `entities` and `relations` match gold with found items, one to one, and name the kind of each
error; `kinds` counts errors and computes F1 without them, `breakdowns` groups errors, `listing` shows sentences.
"""
