"""Put a box's root file system together: overlay, kernel file systems, and the machine's own files.

Runs in the first process of a box, in its own mount namespace, before the box's command.
"""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from local.boxes import syscalls
from local.boxes.gpu import Driver, write_driver
from local.boxes.spec import BoxSpec, Isolation

_SAFE = syscalls.MOUNT_NO_SUID | syscalls.MOUNT_NO_DEVICES
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
WHOLE_PROC = "/var/lib/docker/proc"
_READ_ONLY_IN_PROC = ("sys", "sysrq-trigger", "irq", "bus")


def enter_root(spec: BoxSpec) -> None:
    """Make the box's root the root of this process.

    Raises:
        OSError: a mount was refused; the message names it.
    """
    if spec.isolation.has_namespaces:
        _mount_overlay(spec)
        _mount_kernel_filesystems(spec)
        _bind_machine_files(spec)
        _write_provider_files(spec)
        _mount_disks(spec)
        syscalls.set_hostname(spec.hostname)
        os.chdir(spec.root)
        syscalls.pivot_root_here()
        return
    if spec.mounts or spec.can_nest:
        raise OSError(
            f"isolation {spec.isolation} has no mounts, which a virtual machine needs: run as "
            "root or allow user namespaces (python -m local.boxes.ladder says why they are not)"
        )
    _copy_root(spec)
    _write_provider_files(spec)
    os.chdir(spec.root)
    if spec.isolation is Isolation.CHROOT:
        os.chroot(".")


def _mount_overlay(spec: BoxSpec) -> None:
    syscalls.mount(None, "/", None, syscalls.MOUNT_RECURSIVE | syscalls.MOUNT_PRIVATE)
    work = spec.directory / "work"
    upper = spec.directory / "upper"
    # A volatile overlay refuses a second mount until its work directory is new.
    if work.exists():
        shutil.rmtree(work)
    for path in (work, upper, spec.root):
        path.mkdir(exist_ok=True)
    # Volatile: a kill must not wait for the disk; a box is never the only copy of anything.
    options = f"lowerdir={spec.base},upperdir={upper},workdir={work},userxattr,volatile"
    syscalls.mount("overlay", spec.root, "overlay", 0, options)


def _mount_kernel_filesystems(spec: BoxSpec) -> None:
    root = spec.root
    for name in ("proc", "sys", "dev", "tmp", "run"):
        (root / name).mkdir(exist_ok=True)
    proc = root / "proc"
    syscalls.mount("proc", proc, "proc", _SAFE | syscalls.MOUNT_NO_EXEC)
    for name in _READ_ONLY_IN_PROC:
        if (proc / name).exists():
            syscalls.bind(proc / name, proc / name, read_only=True)
    # Root of the host keeps its uid in the box, so a writable /sys would reach the host.
    syscalls.bind_tree_read_only("/sys", root / "sys")
    _mount_devices(root / "dev", spec.shared_memory_bytes)


def _mount_devices(devices: Path, shared_memory_bytes: int) -> None:
    syscalls.mount("tmpfs", devices, "tmpfs", syscalls.MOUNT_NO_SUID, "mode=755,size=65536k")
    for name in _DEVICES:
        (devices / name).touch()
        syscalls.bind(f"/dev/{name}", devices / name)
    for name, target in _DEVICE_LINKS.items():
        (devices / name).symlink_to(target)
    (devices / "pts").mkdir()
    options = "newinstance,ptmxmode=0666,mode=620"
    flags = syscalls.MOUNT_NO_SUID | syscalls.MOUNT_NO_EXEC
    syscalls.mount("devpts", devices / "pts", "devpts", flags, options)
    (devices / "ptmx").symlink_to("pts/ptmx")
    (devices / "shm").mkdir()
    syscalls.mount(
        "tmpfs", devices / "shm", "tmpfs", _SAFE, f"size={shared_memory_bytes},mode=1777"
    )


def _bind_machine_files(spec: BoxSpec) -> None:
    """Bind what belongs to the machine file by file, as a container engine does."""
    for name, text in _identity_files(spec).items():
        source = _machine_directory(spec) / name
        source.write_text(text)
        _bind_file(source, _inside(spec.root, f"/etc/{name}"), read_only=False)
    driver = _driver(spec)
    if driver is None:
        return
    for file in driver.files:
        _bind_file(file.source, _inside(spec.root, file.target), read_only=file.is_read_only)
    _make_links(spec.root, driver)


def _mount_disks(spec: BoxSpec) -> None:
    for mount in spec.mounts:
        target = _inside(spec.root, mount.target)
        target.mkdir(parents=True, exist_ok=True)
        syscalls.bind(mount.source, target, read_only=mount.is_read_only)
    if spec.can_nest:
        # The kernel mounts a box's /proc only where one is in sight that nothing covers.
        whole = _inside(spec.root, WHOLE_PROC)
        whole.mkdir(parents=True, exist_ok=True, mode=0o700)
        syscalls.mount("proc", whole, "proc", _SAFE | syscalls.MOUNT_NO_EXEC)


def _copy_root(spec: BoxSpec) -> None:
    """Give a box without mounts its own copy; the machine's files are plain files there."""
    is_new = not spec.root.exists()
    if is_new and spec.isolation is Isolation.CHROOT:
        shutil.copytree(spec.base, spec.root, symlinks=True)
        _make_device_nodes(spec.root / "dev")
    for name in ("etc", "root", "tmp", "workspace"):
        (spec.root / name).mkdir(parents=True, exist_ok=True)
    for name, text in _identity_files(spec).items():
        _inside(spec.root, f"/etc/{name}").write_text(text)
    driver = _driver(spec)
    if driver is None:
        return
    for file in driver.files:
        target = _inside(spec.root, file.target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.source, target)
    _make_links(spec.root, driver)


def _make_device_nodes(devices: Path) -> None:
    for name, (major, minor) in _DEVICES.items():
        # A container engine may forbid mknod; the box then works with plain files in /dev.
        with suppress(PermissionError):
            os.mknod(devices / name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            (devices / name).chmod(0o666)


def _identity_files(spec: BoxSpec) -> dict[str, str]:
    resolver = Path("/etc/resolv.conf")
    return {
        "hostname": f"{spec.hostname}\n",
        "hosts": f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {spec.hostname}\n",
        "resolv.conf": resolver.read_text() if resolver.exists() else "",
    }


def _driver(spec: BoxSpec) -> Driver | None:
    if spec.gpu is None:
        return None
    libraries = f"/usr/lib/{os.uname().machine}-linux-gnu"
    if not (spec.base / libraries.lstrip("/")).is_dir():
        libraries = "/usr/lib64"
    return write_driver(spec.gpu, _machine_directory(spec), libraries)


def _machine_directory(spec: BoxSpec) -> Path:
    directory = spec.directory / "machine"
    directory.mkdir(exist_ok=True)
    return directory


def _make_links(root: Path, driver: Driver) -> None:
    for path, destination in driver.links:
        link = _inside(root, path)
        link.unlink(missing_ok=True)
        link.symlink_to(destination)


def _write_provider_files(spec: BoxSpec) -> None:
    for path, text in spec.provider_files.items():
        target = _inside(spec.root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o600)


def _bind_file(source: Path, target: Path, *, read_only: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # A link left by the pod would lead the mount to some other file.
    if target.is_symlink():
        target.unlink()
    target.touch()
    syscalls.bind(source, target, read_only=read_only)


def _inside(root: Path, path: str) -> Path:
    """Map a path in the box to the host without following absolute links out of the box."""
    current = root
    for part in Path(path).parent.parts[1:]:
        step = current / part
        while step.is_symlink():
            link = step.readlink()
            step = root / str(link).lstrip("/") if link.is_absolute() else step.parent / link
        current = step
    return current / Path(path).name
