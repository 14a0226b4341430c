"""What a machine's agent may do here: say who it is, beat, get URLs, hand in a capture."""
