"""Products with weights that never change, for CPUs that multiply matrices of bfloat16."""
