"""The steps of a stop: capture, verify, and only then give up. Each may run any number of times."""
