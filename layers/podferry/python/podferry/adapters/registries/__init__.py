"""Container registries over their HTTP API."""
