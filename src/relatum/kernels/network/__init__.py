"""Parts of the network in compiled code, for a CPU and without gradients."""
