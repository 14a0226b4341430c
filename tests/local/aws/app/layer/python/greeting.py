"""Comes from the layer."""

WORD = "hello from the layer"
