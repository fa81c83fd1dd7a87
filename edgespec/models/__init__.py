"""Model files: what is known, where they are, whether they are whole, whether they fit."""
