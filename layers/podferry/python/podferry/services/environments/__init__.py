"""Environments: freezing their states as versions, going back to one, naming and deleting."""
