"""The table-sequence encoders: the network as the paper has it, and all that belongs to a trained one."""
