"""Scores: exact matches counted, averaged, given intervals, compared and shown.

`metrics.evaluate` is the entry point. `matching` defines which predictions are right, `pairing` brings gold and
predicted documents together, `significance` computes intervals and compares systems, `confidence` and `calibration`
measure how reliable the confidence scores of entities and relations are, `report` gathers the results and `tables`
prints them. `errors` classifies errors, locates them and measures what they cost.
"""
