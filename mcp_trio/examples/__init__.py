"""Runnable servers and clients, each short enough to read in one go: ``python -m``."""
