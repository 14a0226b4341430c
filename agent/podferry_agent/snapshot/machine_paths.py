"""Which paths of a pod belong to the machine: the default table, with the reason for each row.

Patterns are those of user rules: `*` stays within a name, `/**` is the contents of a directory,
a pattern that names a directory covers everything in it.
"""

import re

# Directories that are made if missing and otherwise left alone, with their contents.
BARE_DIRECTORIES = (b"/proc", b"/sys", b"/dev", b"/run", b"/tmp")

# Cannot be overridden by a user's rule.
FIXED: tuple[tuple[str, str], ...] = (
    ("/proc/**", "kernel"),
    ("/sys/**", "kernel"),
    ("/dev/**", "devices of this machine"),
    ("/.podferry", "the agent"),
)

NOT_KEPT: tuple[tuple[str, str], ...] = (
    ("/tmp/**", "temporary files are not kept"),  # noqa: S108 (a pattern)
)

_GROUPS: dict[str, tuple[str, ...]] = {
    "runtime state": (
        "/run/**",
        "/.dockerenv",
        "/run/.containerenv",
        "/.singularity.d",
        "/lost+found",
    ),
    "identity of this machine": (
        "/etc/hostname",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/mtab",
        "/etc/machine-id",
        "/var/lib/dbus/machine-id",
    ),
    "who may log in here": (
        "/etc/ssh/ssh_host_*",
        "/root/.ssh/authorized_keys",
        "/root/.ssh/authorized_keys2",
        "/home/*/.ssh/authorized_keys",
        "/home/*/.ssh/authorized_keys2",
    ),
    "injected by the provider; a stale line breaks every program": (
        "/etc/ld.so.preload",
        "/etc/ld.so.conf.d/*nvidia*",
    ),
    "ldconfig writes it for this machine's driver": (
        "/etc/ld.so.cache",
        "/var/cache/ldconfig",
    ),
    "belongs to the running kernel": (
        "/boot",
        "/lib/modules",
        "/usr/lib/modules",
        "/lib/firmware",
        "/usr/lib/firmware",
        "/vmlinuz*",
        "/initrd.img*",
        "/etc/default/grub*",
        "/etc/grub.d",
        "/etc/initramfs-tools",
        "/etc/dracut.conf",
        "/etc/dracut.conf.d",
        "/etc/modprobe.d",
        "/etc/modules",
        "/etc/modules-load.d",
    ),
    "disks of this machine": (
        "/etc/fstab",
        "/etc/crypttab",
        "/etc/mdadm",
        "/etc/mdadm.conf",
        "/etc/lvm",
        "/etc/iscsi",
        "/etc/multipath",
        "/etc/multipath.conf",
        "/swapfile",
        "/swap.img",
    ),
    "network of this machine": (
        "/etc/netplan",
        "/etc/network",
        "/etc/systemd/network",
        "/etc/NetworkManager/system-connections",
        "/etc/udev/rules.d/70-persistent-net.rules",
        "/var/lib/dhcp",
        "/var/lib/dhclient",
        "/var/lib/NetworkManager",
    ),
    "the cloud's first-boot state": (
        "/etc/cloud",
        "/var/lib/cloud",
        "/var/lib/google",
        "/var/lib/amazon",
        "/var/lib/waagent",
    ),
    "storage of another container engine, which cannot be copied file by file": (
        "/var/lib/docker",
        "/var/lib/containerd",
        "/var/lib/containers/storage",
        "/var/lib/kubelet",
        "/var/lib/snapd",
        "/snap",
    ),
    "state of this machine": (
        "/var/lib/systemd/random-seed",
        "/var/lib/systemd/credential.secret",
        "/var/log/wtmp",
        "/var/log/btmp",
        "/var/log/lastlog",
        "/var/log/journal",
    ),
    "GPU driver, must match the kernel module": (
        "/etc/vulkan/icd.d/nvidia*",
        "/etc/vulkan/implicit_layer.d/nvidia*",
        "/usr/share/vulkan/icd.d/nvidia*",
        "/usr/share/vulkan/implicit_layer.d/nvidia*",
        "/etc/OpenCL/vendors/nvidia.icd",
        "/etc/glvnd/egl_vendor.d/*nvidia*",
        "/usr/share/glvnd/egl_vendor.d/*nvidia*",
        "/etc/egl/egl_external_platform.d/*nvidia*",
        "/usr/share/egl/egl_external_platform.d/*nvidia*",
    ),
}

# Files that a provider puts into its containers. Every list is always active: a file that was
# injected at one provider must not arrive at another one either, and some hold keys.
PROVIDER_TOOLING: dict[str, tuple[str, ...]] = {
    "vastai": (
        "/.launch",
        "/root/onstart.sh",
        "/root/.vast_containerlabel",
        "/root/.vast_api_key",
        "/root/ports.log",
        "/etc/instance.crt",
        "/etc/instance.key",
    ),
    "runpod": ("/etc/rp_environment",),
}


def default_table() -> list[tuple[str, str]]:
    """(pattern, reason) of every default that a user's rule may override."""
    rows = [(pattern, why) for why, patterns in _GROUPS.items() for pattern in patterns]
    rows += [(p, f"provider tooling ({who})") for who, ps in PROVIDER_TOOLING.items() for p in ps]
    return rows


# By name, because ldconfig makes real symlinks to the driver's files, bind targets leave empty
# files behind, and on VMs they are plain files. Only in the directories where drivers go:
# /usr/local/cuda with its compat/ and stubs/, and Python packages, are the user's.
_DRIVER_LIBRARY = (
    r"lib(?:cuda|cudadebugger|nvidia-[^/]+|nvcuvid|nvoptix|vdpau_nvidia"
    r"|(?:GLX|EGL|GLESv1_CM|GLESv2)_nvidia)\.so[^/]*"
)
_DRIVER_PROGRAM = (
    r"nvidia-smi|nvidia-debugdump|nvidia-persistenced|nvidia-cuda-mps-(?:control|server)"
    r"|nv-fabricmanager|nvidia-modprobe|nvoptix\.bin"
)
_SYSTEM_LIBRARIES = (
    r"/(?:usr/)?lib(?:32|64|x32)?(?:/[A-Za-z0-9_]+-linux-gnu[a-z0-9]*)?"
    r"(?:/(?:vdpau|gbm|tls|nvidia(?:/[^/]+)?|nvidia-[0-9]+))?"
)
_DRIVER_DIRECTORIES = (
    rf"(?:{_SYSTEM_LIBRARIES}|/(?:usr/)?s?bin|/usr/share/nvidia(?:/.*)?|/usr/local/nvidia(?:/.*)?)"
)
DRIVER_FILE = re.compile(
    rf"{_DRIVER_DIRECTORIES}/(?:{_DRIVER_LIBRARY}|{_DRIVER_PROGRAM})\Z".encode(), re.DOTALL
)
DRIVER_REASON = "GPU driver, must match the kernel module"
