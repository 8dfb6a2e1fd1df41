"""Measurements: what a call costs, here and beside the peers. Read ratios, never absolutes."""
