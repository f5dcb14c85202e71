"""``python -m crosswind`` is the command ``crosswind``."""

from crosswind.cli.main import main

main()
