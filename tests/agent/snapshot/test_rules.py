"""Which paths belong to the pod, to the machine, or are left out."""

from pathlib import Path

import pytest

from podferry_agent.snapshot import InvalidRuleError, Rules, Verdict
from podferry_agent.snapshot.mounts import (
    can_read_mountinfo,
    mount_points_below,
    parse_mountinfo,
    swap_files,
)

MACHINE_FILES = [
    "/proc/1/status",
    "/sys/kernel",
    "/dev/null",
    "/run/utmp",
    "/.podferry/state/x",
    "/.dockerenv",
    "/run/.containerenv",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/mtab",
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/etc/ssh/ssh_host_ed25519_key",
    "/root/.ssh/authorized_keys",
    "/home/ann/.ssh/authorized_keys",
    "/etc/ld.so.preload",
    "/etc/ld.so.conf.d/00-nvidia.conf",
    "/boot/vmlinuz",
    "/usr/lib/modules/6.1/x.ko",
    "/vmlinuz",
    "/initrd.img.old",
    "/etc/modprobe.d/x.conf",
    "/etc/fstab",
    "/etc/netplan/50.yaml",
    "/var/lib/cloud/x",
    "/var/lib/docker/overlay2/x",
    "/snap/core/1",
    "/swapfile",
    "/var/log/wtmp",
    "/var/log/journal/x/y",
    "/root/onstart.sh",
    "/root/.vast_api_key",
    "/etc/instance.key",
    "/etc/rp_environment",
    "/workspace/data",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so",
    "/lib64/libnvidia-ptxjitcompiler.so.1",
    "/usr/bin/nvidia-smi",
    "/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libGLX_nvidia.so.0",
    "/usr/lib/x86_64-linux-gnu/libEGL_nvidia.so.535.1",
    "/usr/bin/nvidia-cuda-mps-server",
    "/usr/share/nvidia/nvoptix.bin",
    "/lib/firmware/nvidia/x.bin",
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/etc/OpenCL/vendors/nvidia.icd",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
]

POD_FILES = [
    "/etc/passwd",
    "/etc/hosts.allow",
    "/etc/ssh/sshd_config",
    "/root/.bashrc",
    "/root/.ssh/id_ed25519",
    "/root/.ssh/known_hosts",
    "/var/tmp/x",
    "/usr/local/cuda/compat/libcuda.so.1",
    "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libnvidia-ml.so",
    "/usr/local/cuda/lib64/stubs/libcuda.so",
    "/opt/app/libnvidia-ml.so.1",
    "/usr/lib/python3/dist-packages/nvidia/libnvidia-x.so",
    "/opt/venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12",
    "/usr/bin/nvidia-settings2",
    "/usr/lib/x86_64-linux-gnu/libcudart.so.12",
    "/usr/lib/x86_64-linux-gnu/libcudnn.so.8",
    "/etc/modules.conf.d/x",
    "/var/lib/dpkg/status",
    "/home/ann/proc/x",
    "/data/dev/null",
    "/procedures",
    "/devices",
    "/bootstrap",
    "/tmpfiles",
    "/etc/environment",
    "/snapshots/x",
    "/var/run",
]


@pytest.fixture(scope="module")
def defaults() -> Rules:
    return Rules(fixed=[("/workspace/**", "the volume has its own snapshots")])


@pytest.mark.parametrize("path", MACHINE_FILES)
def test_the_table_gives_to_the_machine(defaults: Rules, path: str) -> None:
    assert defaults.judge(path.encode(), directory=False) is Verdict.MACHINE
    explanation = defaults.explain(path.encode())
    assert explanation.verdict is Verdict.MACHINE
    assert explanation.reason != "belongs to the pod"


@pytest.mark.parametrize("path", POD_FILES)
def test_the_table_leaves_to_the_pod(defaults: Rules, path: str) -> None:
    assert defaults.judge(path.encode(), directory=False) is Verdict.KEEP
    assert defaults.explain(path.encode()).reason == "belongs to the pod"


@pytest.mark.parametrize("path", [b"/proc", b"/sys", b"/dev", b"/run", b"/tmp"])
def test_some_directories_are_only_made_if_missing(defaults: Rules, path: bytes) -> None:
    assert defaults.judge(path, directory=True) is Verdict.BARE
    assert not defaults.opens(path)


def test_contents_of_tmp_are_left_out_and_var_tmp_is_kept(defaults: Rules) -> None:
    assert defaults.judge(b"/tmp/x", directory=False) is Verdict.EXCLUDE
    assert defaults.judge(b"/var/tmp/x", directory=False) is Verdict.KEEP


def test_a_symlink_from_var_run_to_run_belongs_to_the_pod(defaults: Rules) -> None:
    assert defaults.judge(b"/var/run", directory=False) is Verdict.KEEP


@pytest.mark.parametrize(
    ("rules", "path", "verdict"),
    [
        (["exclude /var/cache/**"], b"/var/cache/apt/x", Verdict.EXCLUDE),
        (["exclude /var/cache/**"], b"/var/cache2/x", Verdict.KEEP),
        (["exclude /var/cache"], b"/var/cache/apt/x", Verdict.EXCLUDE),
        (["exclude /var/cache", "include /var/cache/apt"], b"/var/cache/apt/x", Verdict.KEEP),
        (["include /var/cache/apt", "exclude /var/cache"], b"/var/cache/apt/x", Verdict.EXCLUDE),
        (["include /tmp/mydata/**"], b"/tmp/mydata/x/y", Verdict.KEEP),
        (["include /tmp/mydata/**"], b"/tmp/other", Verdict.EXCLUDE),
        (["include /etc/hosts"], b"/etc/hosts", Verdict.KEEP),
        (["machine /etc/myprovider/**"], b"/etc/myprovider/key", Verdict.MACHINE),
        (["exclude __pycache__"], b"/opt/a/__pycache__/x.pyc", Verdict.EXCLUDE),
        (["exclude *.pyc"], b"/opt/a/b.pyc", Verdict.EXCLUDE),
        (["exclude *.pyc"], b"/opt/a/b.pycx", Verdict.KEEP),
        (["exclude /data/*/raw"], b"/data/x/raw/1", Verdict.EXCLUDE),
        (["exclude /data/*/raw"], b"/data/x/y/raw/1", Verdict.KEEP),
        (["exclude /data/**/raw"], b"/data/x/y/raw/1", Verdict.EXCLUDE),
        (["exclude /data/**/raw"], b"/data/raw/1", Verdict.EXCLUDE),
        (["exclude build/"], b"/src/build/x", Verdict.EXCLUDE),
        (["exclude build/"], b"/src/build", Verdict.KEEP),
        (["exclude /a?c/[0-9]x"], b"/abc/7x", Verdict.EXCLUDE),
        (["exclude /a?c/[!0-9]x"], b"/abc/7x", Verdict.KEEP),
        (["exclude /a?c"], b"/a/c", Verdict.KEEP),
        ([r"exclude /star\*"], b"/star*", Verdict.EXCLUDE),
        ([r"exclude /star\*"], b"/starx", Verdict.KEEP),
        (["exclude /new*"], b"/new\nline", Verdict.EXCLUDE),
        (["exclude data/x"], b"/data/x", Verdict.EXCLUDE),
        (["exclude data/x"], b"/a/data/x", Verdict.KEEP),
        (["include /proc/**", "include /proc"], b"/proc/1", Verdict.MACHINE),
        (["include /.podferry"], b"/.podferry/state", Verdict.MACHINE),
        (["include /dev/**"], b"/dev/sda", Verdict.MACHINE),
    ],
)
def test_the_last_rule_that_matches_wins(rules: list[str], path: bytes, verdict: Verdict) -> None:
    assert Rules(rules).judge(path, directory=False) is verdict


def test_a_mount_cannot_be_included_by_a_rule() -> None:
    rules = Rules(["include /mnt/**", "include /mnt"], mounts=[b"/mnt/data", b"/etc/hosts"])
    assert rules.judge(b"/mnt/data", directory=True) is Verdict.BARE
    assert rules.judge(b"/mnt/data/x/y", directory=False) is Verdict.MACHINE
    assert rules.judge(b"/etc/hosts", directory=False) is Verdict.MACHINE
    assert rules.judge(b"/mnt/database", directory=False) is Verdict.KEEP
    assert rules.explain(b"/mnt/data/x").rule == "mount point"
    assert rules.protects_below(b"/mnt") == [b"/mnt/data"]


def test_explain_names_the_rule_that_decides() -> None:
    rules = Rules(["exclude /opt/**", "include /opt/keep"])
    assert rules.explain(b"/opt/keep/x").rule == "include /opt/keep"
    assert rules.explain(b"/opt/x").rule == "exclude /opt/**"
    assert rules.explain(b"/etc/hosts").rule == "/etc/hosts"
    assert rules.explain(b"/root/onstart.sh").reason == "provider tooling (vastai)"
    assert rules.explain(b"/usr/bin/nvidia-smi").rule == "GPU driver names"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "exclude",
        "exclude ",
        "drop /x",
        "/x",
        "exclude /",
        "exclude /[a",
        "exclude /x\\",
        "exclude /[z-a]",
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRuleError, match=r"rule|pattern") as caught:
        Rules([text])
    assert caught.value.code == "invalid_rule"


def test_volumes_know_no_default_table() -> None:
    rules = Rules([], with_defaults=False)
    for path in (b"/workspace/etc/hosts", b"/workspace/tmp/x", b"/workspace/usr/bin/nvidia-smi"):
        assert rules.judge(path, directory=False) is Verdict.KEEP


MOUNTINFO = rb"""22 1 0:21 / / rw - overlay overlay rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:1 /hosts /etc/hosts rw - ext4 /dev/sda1 rw
25 22 8:1 /x /mnt/with\040space\011tab rw - ext4 /dev/sda1 rw
26 22 8:1 /y /mnt/back\134slash rw,relatime shared:1 - ext4 /dev/sda1 rw
"""


def test_mount_points_are_read_with_their_escapes(tmp_path: Path) -> None:
    file = tmp_path / "mountinfo"
    file.write_bytes(MOUNTINFO)
    assert parse_mountinfo(MOUNTINFO) >= {
        b"/mnt/with space\ttab",
        b"/mnt/back\\slash",
        b"/etc/hosts",
    }
    assert mount_points_below(b"/", file) == {
        b"/proc",
        b"/etc/hosts",
        b"/mnt/with space\ttab",
        b"/mnt/back\\slash",
    }
    assert mount_points_below(b"/mnt", file) == {b"/with space\ttab", b"/back\\slash"}
    assert mount_points_below(b"/mn", file) == set()


def test_without_proc_there_are_no_listed_mounts(tmp_path: Path) -> None:
    assert mount_points_below(b"/", tmp_path / "missing") == set()
    assert not can_read_mountinfo(tmp_path / "missing")
    assert swap_files(tmp_path / "missing") == set()


def test_swap_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "swaps"
    file.write_bytes(
        b"Filename\tType\tSize\n/var/swap\\040file   file\t1\t0\t-2\n/dev/sda2 partition 1 0 -3\n"
    )
    assert swap_files(file) == {b"/var/swap file", b"/dev/sda2"}
