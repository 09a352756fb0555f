"""Speed and memory beside hardware limits and peers: ``python -m benchmarks``."""
