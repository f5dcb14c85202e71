"""The command line: ``crosswind demo | run | explain``."""
