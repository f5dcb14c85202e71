"""Handshake Join: streams that walk past each other along a row of workers."""
