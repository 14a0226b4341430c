"""The main job in one go: launch, work, stop, start at another provider, compare, move back."""
