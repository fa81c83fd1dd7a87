"""The only room that imports llama_cpp: adapters from its C API to the protocols of decoding."""
