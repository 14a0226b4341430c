"""The restore drill: prove of a snapshot, at any time, that it can be restored."""
