"""The embedded AWS: the services that the stack uses, in one process on this machine."""
