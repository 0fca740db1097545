"""Speed, as ratios to a peer or a ceiling measured in the same run. `python -m benchmarks [NAME …] [--json FILE]`."""
