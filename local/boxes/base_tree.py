"""Copy commands, their libraries and a Python from the host into a new root directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from pathlib import Path

_COMMAND_WORDS = """
sh bash dash cat ls cp mv rm ln mkdir rmdir touch chmod chown chgrp stat readlink realpath dirname
basename echo printf pwd env true false test [ id whoami uname hostname date sleep sync dd df du
head tail wc sort uniq cut tr tee seq tac nl od cksum md5sum sha1sum sha256sum sha512sum base64
expr nohup nice mktemp mkfifo mknod truncate install split timeout kill ps grep egrep fgrep sed awk
find xargs tar gzip gunzip zstd diff cmp less more which mount umount getent ldd ldconfig sqlite3
curl wget vi setfattr getfattr setsid nproc free top pgrep pkill tty stty clear
"""

_DATA_PATTERNS = """
/lib/*/libnss_files*.so* /lib/*/libnss_dns*.so* /lib64/libnss_files*.so* /lib64/libnss_dns*.so*
/lib/*/libresolv.so* /lib64/libresolv.so* /usr/lib/*/gconv/gconv-modules
/etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/ssl/openssl.cnf
/etc/pki/tls/certs/ca-bundle.crt /usr/share/terminfo/x/xterm* /usr/share/terminfo/l/linux
/lib/terminfo/x/xterm* /lib/terminfo/l/linux /usr/lib/locale/C.utf8/* /etc/ld.so.conf
/etc/ld.so.conf.d/* /etc/os-release /usr/lib/os-release /etc/nsswitch.conf /etc/protocols
/etc/services /usr/share/python-wheels/*.whl
"""

# What compiled Python packages may ask for, whatever the host's commands need.
_DATA_PATTERNS += " ".join(
    f"{folder}/{name}"
    for folder in ("/lib/*", "/lib64")
    for name in ("libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1")
)

_DIRECTORY_NAMES = """
etc proc sys dev run tmp root home opt srv mnt media workspace usr/local/bin usr/local/lib
var/tmp var/log var/lib var/cache
"""

_SEARCH_PATH = os.pathsep.join(
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
)
_LIBRARY_LINE = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_NOT_IN_A_BOX = shutil.ignore_patterns(
    "__pycache__",
    "EXTERNALLY-MANAGED",
    "_tkinter*",
    "config-*",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
)


def find_commands() -> list[Path]:
    found = (shutil.which(name, path=_SEARCH_PATH) for name in _COMMAND_WORDS.split())
    return [Path(path) for path in found if path]


def build_tree(root: Path) -> None:
    """Fill the empty directory `root` with a small system that looks like the host.

    Raises:
        OSError: a file of the host could not be copied, or its `ldd` is missing.
    """
    _Tree(root).build()


class _Tree:
    """One base under construction."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._done: set[Path] = set()

    def build(self) -> None:
        self._keep_host_layout()
        commands = find_commands()
        for command in commands:
            self._put(command)
        self._put_libraries(path.resolve() for path in commands)
        for pattern in _DATA_PATTERNS.split():
            for path in sorted(Path("/").glob(pattern.lstrip("/"))):
                self._put(path)
        self._put_python()
        self._write_etc()
        self._open_to_all_users()

    def _keep_host_layout(self) -> None:
        """Copy the host's /bin -> usr/bin links, because captures must meet both layouts."""
        for name in ("bin", "sbin", "lib", "lib64", "lib32"):
            source = Path("/", name)
            if source.is_symlink():
                link = source.readlink()
                (self._root / name).symlink_to(link)
                (self._root / str(link).lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif source.is_dir():
                (self._root / name).mkdir()
        for name in _DIRECTORY_NAMES.split():
            (self._root / name).mkdir(parents=True, exist_ok=True)

    def _put(self, path: Path) -> None:
        """Copy one file, or a link together with what it leads to."""
        path = path.parent.resolve() / path.name
        if path in self._done or path.is_dir():
            return
        self._done.add(path)
        target = self._root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(path.readlink())
            self._put(path.parent / path.readlink())
        else:
            _copy(path, target)

    def _put_libraries(self, binaries: Iterable[Path]) -> None:
        library_directory = Path("/usr/lib")
        foreign: list[Path] = []
        for library in _libraries_of(binaries):
            if library.name == "libc.so.6":
                library_directory = library.parent
            if _is_in_foreign_python(library):
                foreign.append(library)
            else:
                self._put(library)
        for library in foreign:
            # The loader finds it there without a run path and without a loader cache.
            _copy(library, self._root / library_directory.relative_to("/") / library.name)

    def _put_python(self) -> None:
        """Add the interpreter that runs this: at its own place under /usr, else in /usr/local."""
        standard_library = Path(sysconfig.get_path("stdlib")).resolve()
        interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        prefix = Path(sys.base_prefix).resolve()
        box_prefix = prefix if prefix == Path("/usr") else Path("/usr/local")
        box_interpreter = box_prefix / "bin" / interpreter.name
        _copy(interpreter, self._root / box_interpreter.relative_to("/"))
        box_library = (
            self._root / box_prefix.relative_to("/") / standard_library.relative_to(prefix)
        )
        shutil.copytree(standard_library, box_library, ignore=_NOT_IN_A_BOX, symlinks=True)
        extensions = [
            path
            for path in (standard_library / "lib-dynload").glob("*.so")
            if not path.name.startswith("_tkinter")
        ]
        self._put_libraries([interpreter, *extensions])
        for name in ("python3", "python"):
            link = self._root / "usr/local/bin" / name
            link.symlink_to(box_interpreter)
        packages = box_library / "site-packages"
        if prefix == Path("/usr"):
            packages = self._root / "usr/lib/python3/dist-packages"
        self._put_pip(packages)

    def _put_pip(self, packages: Path) -> None:
        """Install pip from the wheel that comes with Python, so that boxes can use it offline."""
        packages.mkdir(parents=True, exist_ok=True)
        wheel = _find_pip_wheel()
        if wheel is None:
            return
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
        for name in ("pip", "pip3"):
            script = self._root / "usr/local/bin" / name
            script.write_text(
                "#!/usr/local/bin/python3\nimport sys\n"
                "from pip._internal.cli.main import main\n\nsys.exit(main())\n"
            )
            script.chmod(0o755)

    def _write_etc(self) -> None:
        shell = "/bin/bash" if (self._root / "bin/bash").exists() else "/bin/sh"
        files = {
            "passwd": f"root:x:0:0:root:/root:{shell}\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
            "group": "root:x:0:\nnogroup:x:65534:\n",
            "shells": "/bin/sh\n/bin/bash\n",
            "profile": f"export PATH={_SEARCH_PATH}\n",
        }
        for name, text in files.items():
            (self._root / "etc" / name).write_text(text)

    def _open_to_all_users(self) -> None:
        """Let every user of a box read the base, whatever umask its builder has."""
        for directory, _, names in os.walk(self._root):
            Path(directory).chmod(0o755)
            for path in (Path(directory, name) for name in names):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode & 0o777 | 0o444)
        for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("root", 0o700)):
            (self._root / name).chmod(mode)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    # A box has one user; set-uid programs would only be a way to surprise the host.
    target.chmod(target.stat().st_mode & 0o777)


def _libraries_of(binaries: Iterable[Path]) -> list[Path]:
    """Ask the host's loader. Scripts among the files make `ldd` grumble, which is fine."""
    command = ["ldd", *map(str, binaries)]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in dict.fromkeys(_LIBRARY_LINE.findall(listing))]


def _is_in_foreign_python(path: Path) -> bool:
    prefix = Path(sys.base_prefix).resolve()
    return prefix != Path("/usr") and path.resolve().is_relative_to(prefix)


def _find_pip_wheel() -> Path | None:
    standard_library = Path(sysconfig.get_path("stdlib"))
    places = (standard_library / "ensurepip/_bundled", Path("/usr/share/python-wheels"))
    for place in places:
        for wheel in sorted(place.glob("pip-*.whl")):
            return wheel
    return None
