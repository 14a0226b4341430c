"""Sharing a version of an environment: leak list, scan, decisions, receipt, and the copy."""
