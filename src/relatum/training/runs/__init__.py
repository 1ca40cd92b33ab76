"""Several runs of the same settings: seeds and folds, side by side, summed up and compared."""
