"""Builders of stored things, with something in every kind of field."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from podferry.domain.command import Command, CommandKind
from podferry.domain.ids import new_id
from podferry.domain.machine import Machine, MachineState, PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.domain.pod import Desired, Failure, Pod, PodState, RunSpec
from podferry.domain.saving import Saving
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState
from podferry.domain.volume import Lease, Origin, Volume
from podferry.ports.gpu_cloud import BootTraits, CloudTraits

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
ACCOUNT = "acct_01k0000000000000000000000a"
A_FAILURE = Failure(code="agent_error", detail="no room", at=NOW)
_serials = count(1)


def an_id(prefix: str) -> str:
    """A new id; later calls give ids that sort later."""
    serial = next(_serials)
    return new_id(prefix, NOW + timedelta(milliseconds=serial), serial)


def a_volume(**changes: Any) -> Volume:
    volume = Volume(
        id=an_id("vol"),
        account_id=ACCOUNT,
        created_at=NOW,
        name="models",
        epoch=3,
        lease=Lease(pod_id="pod_1", machine_id=None),
        readers=("pod_2", "pod_3"),
        forked_from=Origin(volume_id="vol_0", snapshot_id="snap_0"),
        size_bytes=2**53 + 1,
        saving=Saving(epoch=3, open_id="snap_1", begun_at=NOW, error=A_FAILURE),
    )
    return replace(volume, **changes)


def a_pod(**changes: Any) -> Pod:
    pod = Pod(
        id=an_id("pod"),
        account_id=ACCOUNT,
        created_at=NOW,
        name="trainer",
        state=PodState.RUNNING,
        desired=Desired.RUNNING,
        spec=RunSpec(image="debian:12", environment={"": "empty name", "$x": "dollar"}, ports=(1,)),
        requirements=Requirements(gpu_names=("H100",)),
        environment_id="env_1",
        volume_id="vol_1",
    )
    return replace(pod, **changes)


def a_machine(**changes: Any) -> Machine:
    offer = Offer(
        provider="fluence",
        reference={"id": 7, "price": 0.1, "tags": ["a", None, True]},
        host=None,
        kind=Kind.CONTAINER,
        market=Market.ON_DEMAND,
        gpu_name="H100",
        gpu_count=1,
        vram_mib_per_gpu=81559,
        vcpus=7.5,
        memory_mib=1024,
        disk_gib=20,
        country="US",
        region=None,
        price_microusd_per_hour=1_250_000,
        billing=BillingRule(increment_seconds=3600, minimum_seconds=3600),
    )
    machine = Machine(
        id=an_id("mach"),
        account_id=ACCOUNT,
        created_at=NOW,
        pod_id="pod_1",
        operation_id="op_1",
        offer=offer,
        stamp="pf-00000000-0000000000000",
        epoch=1,
        state=MachineState.READY,
        boot_token_sha256="0" * 64,
        ports=(PublicPort(internal=22, host="203.0.113.1", external=40022),),
        facts={"load": 12.0, "gpus": [{"index": 0, "temperature_c": 61.5}]},
    )
    return replace(machine, **changes)


def a_command(**changes: Any) -> Command:
    command = Command(
        id=an_id("cmd"),
        account_id=ACCOUNT,
        created_at=NOW,
        machine_id="mach_1",
        pod_id="pod_1",
        kind=CommandKind.EXEC,
        arguments={"argv": ["true"]},
        timeout_seconds=60,
    )
    return replace(command, **changes)


def a_save(**changes: Any) -> Snapshot:
    """A committed save of a volume, with nothing before it."""
    save = Snapshot(
        id=an_id("snap"),
        account_id=ACCOUNT,
        created_at=NOW,
        kind=SnapshotKind.VOLUME,
        subject_id="vol_1",
        pod_id="pod_1",
        machine_id="mach_1",
        epoch=1,
        operation_id=None,
        parent_id=None,
        state=SnapshotState.COMMITTED,
    )
    return replace(save, **changes)


def at(minute: float) -> datetime:
    """The moment so many minutes after `NOW`."""
    return NOW + timedelta(minutes=minute)


def container_boots(deadline_seconds: int = 600) -> dict[Kind, BootTraits]:
    boot = BootTraits(
        channel=Channel.ENTRYPOINT, bootstrap_limit=4096, deadline_seconds=deadline_seconds
    )
    return {Kind.CONTAINER: boot}


def cloud_traits(**changes: Any) -> CloudTraits:
    """Those of a provider of containers without any peculiarity."""
    traits = CloudTraits(
        boots=container_boots(),
        poll_seconds=5,
        listing_settles_seconds=60,
        failed_is_final=False,
        markets=(Market.ON_DEMAND,),
        billing=BillingRule(increment_seconds=1),
        can_cancel_starting=True,
        reclaim_notice_seconds=None,
        shows_price=True,
        shows_billing_start=True,
    )
    return replace(traits, **changes)
