"""Tests on a real Spark: one session for all of them (``session``), tables in and out (``frames``)."""
