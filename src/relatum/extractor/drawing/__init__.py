"""Extractions and attention as HTML and SVG that need nothing else."""
