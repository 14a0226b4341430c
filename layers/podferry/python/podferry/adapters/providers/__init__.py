"""GPU providers: one file each, one line in `registry.py`, one contract suite for all."""
