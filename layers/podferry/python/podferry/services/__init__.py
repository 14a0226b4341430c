"""Use cases. They know ports and domain; never HTTP, AWS or the name of a provider."""
