"""Pods that nobody uses: a warning, then their ordinary stop (docs/adr/0013)."""
