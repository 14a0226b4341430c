"""Files over SFTP and scp: the whole tree of the box, as the box's user."""

import os
import posixpath

import asyncssh


class Files(asyncssh.SFTPServer):
    """Relative paths begin at the user's home, not where the server happens to stand.

    The server's own working directory may be moved away by a restore.
    """

    def __init__(self, channel: "asyncssh.SSHServerChannel[bytes]", home: str, root: str) -> None:
        super().__init__(channel, chroot=None if root == "/" else os.fsencode(root))
        self._home = os.fsencode(home)
        self._is_whole = root == "/"

    def map_path(self, path: bytes) -> bytes:
        if self._is_whole:
            return posixpath.join(self._home, path)
        return super().map_path(path)

    def exit(self) -> None:
        """OpenSSH's scp takes a session without an exit status for a failure."""
        self.channel.exit(0)
