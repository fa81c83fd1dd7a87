"""One small module a command: parsing and printing only."""
