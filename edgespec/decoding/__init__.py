"""The algorithm: Python and numpy only, so that it runs on fakes in tests and on llama.cpp in the engine."""
