"""Measuring a supporter: ESC-Eval, SAGE, language, control, safety, and the report that shows them side by side."""
