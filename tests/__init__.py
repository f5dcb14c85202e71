"""Tests of Crosswind: every engine against one oracle that shares no code with it."""
