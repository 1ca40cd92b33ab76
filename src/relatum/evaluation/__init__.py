"""Scores: exact matches counted, averaged, given intervals, compared and shown.

`metrics.evaluate` is the way in. `matching` says what is right, `pairing` brings gold and predicted documents together,
`significance` says how far a score can be trusted, `confidence` and `calibration` what the scores beside entities and
relations are worth, `report` gathers it all and `tables` shows it. `errors` says what is
wrong, where, and what it costs.
"""
