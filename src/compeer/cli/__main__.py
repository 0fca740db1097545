"""`python -m compeer.cli`, where the command is not on the path."""

from compeer.cli import main

main()
