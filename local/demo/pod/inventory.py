"""Runs in the pod: prints every path with all that a restore has to bring back.

The output is base64 of zlib of JSON: {path: [type, mode, uid, gid, mtime_ns, detail]}, with the
path in `surrogateescape` form. Leaves out what belongs to the machine, not to the pod.
"""

import base64
import hashlib
import json
import os
import re
import stat
import sys
import zlib

MACHINE_DIRECTORIES = ("/proc", "/sys", "/dev", "/run", "/tmp", "/.podferry")
MACHINE_FILES = (
    "/etc/ld.so.cache",
    "/var/cache/ldconfig",
    "/etc/machine-id",
    "/etc/mtab",
    "/root/.ssh/authorized_keys",
    "/root/onstart.sh",
    "/root/.vast_containerlabel",
    "/root/.vast_api_key",
    "/root/ports.log",
    "/etc/instance.crt",
    "/etc/instance.key",
)


DRIVER_FILE = re.compile(r"/(?:lib(?:cuda|nvidia-[a-z0-9-]+)\.so[.0-9]*|nvidia-smi)$")
"""The GPU driver's files come with the machine: links and stubs of them lie in its own layer."""


def mount_points() -> set[str]:
    with open("/proc/self/mountinfo", "rb") as lines:
        fields = [line.split(b" ")[4] for line in lines]
    return {os.fsdecode(f.replace(b"\\040", b" ").replace(b"\\134", b"\\")) for f in fields}


def describe(path: str, links: dict[tuple[int, int], str]) -> list[object]:
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    detail: object = ""
    if kind == stat.S_IFLNK:
        detail = os.readlink(path)
    elif kind in {stat.S_IFCHR, stat.S_IFBLK}:
        detail = info.st_rdev
    elif kind == stat.S_IFREG:
        first = links.setdefault((info.st_dev, info.st_ino), path)
        holes = info.st_blocks * 512 < info.st_size - 1024 * 1024
        detail = [info.st_size, digest(path), first if info.st_nlink > 1 else "", holes]
    attributes = {} if kind == stat.S_IFLNK else xattrs(path)
    return [
        kind,
        stat.S_IMODE(info.st_mode),
        owner(info, attributes),
        info.st_mtime_ns,
        detail,
        {k: v for k, v in attributes.items() if not k.startswith("user.podferry.")},
    ]


def owner(info: os.stat_result, attributes: dict[str, str]) -> list[object]:
    """Where owners cannot be set, the wanted one is kept beside the file."""
    return [attributes.get("user.podferry.owner", f"{info.st_uid}:{info.st_gid}")]


def xattrs(path: str) -> dict[str, str]:
    found = {}
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if not name.startswith(("security.selinux", "trusted.", "user.overlay.")):
            found[name] = os.getxattr(path, name, follow_symlinks=False).hex()
    return found


def digest(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            total.update(piece)
    return total.hexdigest()


def walk(top: str, mounts: set[str]) -> list[str]:
    found = []
    for directory, names, files in os.walk(top):
        names[:] = sorted(n for n in names if keep(os.path.join(directory, n), mounts))
        paths = [os.path.join(directory, n) for n in sorted([*names, *files])]
        found += [path for path in paths if keep(path, mounts)]
    return found


def keep(path: str, mounts: set[str]) -> bool:
    if path == "/workspace" or path.startswith("/workspace/"):
        return True
    if DRIVER_FILE.search(path):
        return False
    return path not in mounts and path not in MACHINE_FILES and path not in MACHINE_DIRECTORIES


def main() -> None:
    mounts = mount_points()
    links: dict[tuple[int, int], str] = {}
    entries = {path: describe(path, links) for path in walk("/", mounts)}
    text = json.dumps(entries, ensure_ascii=True).encode()
    sys.stdout.write(base64.b64encode(zlib.compress(text)).decode())


if __name__ == "__main__":
    main()
