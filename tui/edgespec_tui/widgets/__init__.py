"""Widgets of the app, one a file."""
