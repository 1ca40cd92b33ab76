"""The reports of a run for people to read: result, report, curves, card, trackers."""
