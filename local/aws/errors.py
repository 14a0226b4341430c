"""Errors of the embedded AWS that a person can act on."""


class LocalAWSError(Exception):
    """The embedded AWS cannot go on; the message says what to do about it."""


class DataDirBusyError(LocalAWSError):
    """Another embedded AWS runs on the same data directory."""


class PortTakenError(LocalAWSError):
    """Another program listens on a port that this one needs."""


class ShimError(LocalAWSError):
    """The installed emulator is not the one that the shims were written for."""


class DeployError(LocalAWSError):
    """A stack could not be created or updated; the message lists the failed resources."""
