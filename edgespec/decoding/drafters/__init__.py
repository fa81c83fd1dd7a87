"""Drafters: whatever proposes tokens for the target to check."""
