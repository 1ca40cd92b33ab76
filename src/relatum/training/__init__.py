"""Training: from a corpus to a model on disk that has been chosen on dev and scored on test."""
