"""EdgeSpec: speculative decoding on llama.cpp for one person's own machine."""

__version__ = "0.1.0"
