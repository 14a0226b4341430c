"""Looking into committed snapshots without a machine: names, changes, packages, contents."""
