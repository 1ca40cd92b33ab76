"""Reading in compiled code on a CPU: the encoder in one call, and the network in another."""
