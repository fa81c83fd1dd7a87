"""The engine process: models live in a child, so that a native crash cannot take the app with it."""
