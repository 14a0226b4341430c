"""The garbage collector: the only one that deletes objects."""
