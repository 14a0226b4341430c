"""Builds the agent's bundle: our program, its interpreter and every library, in one tarball.

It carries its own dynamic loader and C library, so it runs on any Linux of the same processor: old
or new glibc, musl, or a root with no library at all, and it goes on running while a restore
replaces the box's own libraries.
"""
