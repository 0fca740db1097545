"""Training the 1.5B supporter and its judge on open CER, and proving it to blind readers."""
