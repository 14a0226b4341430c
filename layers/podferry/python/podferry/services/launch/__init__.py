"""The steps of a launch: restore, then ready. Each may run any number of times."""
