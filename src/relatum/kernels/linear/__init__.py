"""Products with weights that never change: in bfloat16 on a matrix unit, and in 8-bit integers."""
