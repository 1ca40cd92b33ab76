"""Frozen language models and word vectors: what the model is given about words before it learns anything."""
