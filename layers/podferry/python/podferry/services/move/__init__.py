"""The steps of a move: a stop and a start that an outer workflow ties together."""
