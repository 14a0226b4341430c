"""The pod's SSH server: a process of its own that runs from the bundle.

It is not a part of the agent's process for three reasons. A quiesce stops it like any program of
the user, so that no login and no upload can change the box during an exact capture. What strangers
send to an open port is read by a process that holds no token of the control plane. And a user who
copies gigabytes does not slow down heartbeats and captures.

The agent starts it and talks to it in lines of JSON (`messages`): settings, the host key and the
account's keys go in over its stdin, counts come back over its stdout. The end of its stdin is its
end. Only the modules that run in that process import asyncssh.
"""

PROCESS_NAME = "podferry-sshd"
"""By it a quiesce knows the server; at most 15 characters, as the kernel wants it."""

SERVER_NAMES = frozenset({PROCESS_NAME, "sshd", "sshd-session", "dropbear"})
"""Ours and those of images: the ways in to the box."""
