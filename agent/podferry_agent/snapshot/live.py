"""The tree as it is on the machine at one moment, as far as `lstat` tells."""

import errno
import os
import stat
from collections.abc import Mapping

from podferry_agent.snapshot import posix
from podferry_agent.snapshot.found import entry_of, special_entry
from podferry_agent.snapshot.model import BARE, TEMPORARY_PREFIX, Entry, TreeSpec
from podferry_agent.snapshot.mounts import can_read_mountinfo, is_unlisted_mount
from podferry_agent.snapshot.rules import Rules, Verdict
from podferry_agent.snapshot.scanning import FileStatus, Scan, scan
from podferry_agent.snapshot.trail import Trail
from podferry_agent.snapshot.tree import VANISHED_ERRNOS, Tree
from podferry_agent.snapshot.xattrs import read_xattrs, settle


class LiveTree:
    """All names of a tree that belong to the pod; no regular file is opened.

    Restores look at whole systems of which nearly everything is in the snapshot. So a name that
    the snapshot has as well is not judged again: its entry was, by the same rules.
    """

    def __init__(
        self, tree: Tree, rules: Rules, spec: TreeSpec, want: Mapping[bytes, Entry]
    ) -> None:
        """`want`: entries that were judged, none of them the machine's."""
        self.nodes: dict[bytes, FileStatus] = {b"": os.fstat(tree.fd)}
        self.bare: set[bytes] = set()  # of the nodes, directories whose content is not ours
        # Directories that have flags or attributes, and what is neither file nor directory.
        self.described: dict[bytes, Entry] = {}
        self.inodes: dict[tuple[int, int], list[bytes]] = {}  # those with several names
        self.leftovers: list[bytes] = []  # our temporary names from a crash
        self._tree = tree
        self._rules = rules
        self._prefix = spec.pod_prefix + b"/"
        self._want = want
        self._with_sockets = spec.kind == "volume"
        self._ask_for_mounts = not can_read_mountinfo()
        # Names that need no more than a look, if files are there: none if each may be a mount.
        self._wanted_files = {
            path
            for path, entry in want.items()
            if not self._ask_for_mounts and not stat.S_ISDIR(entry.mode)
        }
        self._walk()

    def has_directory(self, path: bytes) -> bool:
        status = self.nodes.get(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _walk(self) -> None:
        stack = [b""]
        with Trail(self._tree) as trail:
            while stack:
                path = stack.pop()
                try:
                    fd = trail.enter(path)
                    found = scan(fd, _pass_over)
                except OSError as error:
                    if error.errno not in (*VANISHED_ERRNOS, errno.EACCES, errno.EPERM):
                        raise
                    continue  # gone, or of another user: nothing in it can be kept
                self._describe_directory(path, fd)
                stack += self._take_all(path, fd, found)

    def _describe_directory(self, path: bytes, fd: int) -> None:
        if path in self.bare:
            return
        flags, xattrs = posix.get_flags(fd), read_xattrs(fd)
        if flags or xattrs:
            entry = self.described[path] = entry_of(path, self.nodes[path])
            entry.flags = flags
            settle(entry, xattrs)

    def _take_all(self, path: bytes, fd: int, found: Scan) -> list[bytes]:
        """Note what is in a directory; the directories in it that are looked into as well."""
        prefix = path + b"/" if path else b""
        opened = []
        nodes, files, device = self.nodes, self._wanted_files, self.nodes[path].st_dev
        for name, status in found.named():
            child = prefix + name
            if child in files and stat.S_ISREG(status.st_mode):
                nodes[child] = status  # most names take the short way
                if status.st_nlink > 1:
                    self._note_inode(child, status)
            elif self._take(child, (fd, name, device), status):
                opened.append(child)
        return opened

    def _take(self, path: bytes, place: tuple[int, bytes, int], status: FileStatus) -> bool:
        """Note one name, if it is the pod's; whether it is a directory to be looked into."""
        fd, name, _ = place
        verdict, opened = self._verdict(path, name, status)
        if is_unlisted_mount(place, status, ask=self._ask_for_mounts):
            verdict = Verdict.BARE if stat.S_ISDIR(status.st_mode) else Verdict.MACHINE
            opened = False
        if verdict not in (Verdict.KEEP, Verdict.BARE) or self._is_skipped_socket(status):
            return False
        self.nodes[path] = status
        if verdict is Verdict.BARE:
            self.bare.add(path)
        if not stat.S_ISDIR(status.st_mode):
            self._note_file(path, fd, name, status)
        return opened

    def _verdict(self, path: bytes, name: bytes, status: FileStatus) -> tuple[Verdict, bool]:
        """The verdict for a name, and whether it is a directory to be looked into."""
        directory = stat.S_ISDIR(status.st_mode)
        entry = self._want.get(path)
        if entry is not None and entry.is_directory == directory and not entry.bits & BARE:
            return Verdict.KEEP, directory
        if name.startswith(TEMPORARY_PREFIX):
            self.leftovers.append(path)
            return Verdict.EXCLUDE, False
        verdict = self._rules.judge(self._prefix + path, directory=directory)
        if not directory or verdict is Verdict.KEEP:
            return verdict, directory
        opened = self._rules.opens(self._prefix + path)
        return (Verdict.BARE if opened else verdict), opened

    def _note_file(self, path: bytes, fd: int, name: bytes, status: FileStatus) -> None:
        if status.st_nlink > 1:
            self._note_inode(path, status)
        if path not in self._want or stat.S_ISREG(status.st_mode):
            return
        try:
            self.described[path] = special_entry(self._tree, (fd, name), path, status)
        except OSError as error:
            if error.errno not in VANISHED_ERRNOS:
                raise

    def _note_inode(self, path: bytes, status: FileStatus) -> None:
        self.inodes.setdefault((status.st_dev, status.st_ino), []).append(path)

    def _is_skipped_socket(self, status: FileStatus) -> bool:
        return stat.S_ISSOCK(status.st_mode) and not self._with_sockets


def _pass_over(_name: bytes, _error: OSError) -> None:
    """Not there for us, so a restore makes it anew."""
