"""The building blocks of the network, each given its sizes and parts; none of them knows of configs or of language."""
