"""What is left of a run for people to read: result, report, curves, card, trackers."""
