"""Measures the snapshot engine beside other tools: same data, same disk, same round."""
