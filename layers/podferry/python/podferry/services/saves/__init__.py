"""Saves of volumes while their pods run."""
