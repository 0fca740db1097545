"""Runs that stand behind the figures of the documentation: scripts and small result files. `out/` is not kept."""
