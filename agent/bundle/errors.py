"""What stops a build."""


class BundleError(Exception):
    """The bundle cannot be made here; the message says what to change."""
