"""Pods on machines, written straight into the store: the workflows have tests of their own."""

from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

from podferry.domain.machine import Machine, MachineState, PublicPort, Pulse
from podferry.domain.operation import Operation, OperationState
from podferry.domain.pod import Desired, Pod, PodState
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, StoredObject
from podferry.domain.volume import Lease, Volume
from podferry.ports.store import Change, Create, Update
from tests.unit.http.clouds import an_offer
from tests.unit.http.deployment import Deployment, User

IMAGE = "debian:12"


def a_stopped_pod(user: User, **body: Any) -> str:
    """The id of a new pod that was never launched."""
    reply = user.post(
        "/v1/pods", {"name": "trainer", "spec": {"image": IMAGE}, "start": False, **body}
    )
    assert reply.status == 201, reply.text
    return str(reply.json["id"])


def a_running_pod(user: User) -> str:
    """The id of a pod whose machine is ready."""
    pod_id = a_stopped_pod(user)
    put_on_machine(user.deployment, pod_id, MachineState.READY, PodState.RUNNING)
    return pod_id


def put_on_machine(
    deployment: Deployment, pod_id: str, machine_state: MachineState, pod_state: PodState
) -> Machine:
    """Rent a machine for the pod in the blink of an eye."""
    store, now = deployment.ports.store, deployment.ports.clock.now()
    pod = store.get(Pod, pod_id)
    volume = store.get(Volume, pod.volume_id)
    machine_id = deployment.use.records.new_id(Machine)
    machine = Machine(
        id=machine_id,
        account_id=pod.account_id,
        created_at=now,
        pod_id=pod.id,
        operation_id="op_none",
        offer=an_offer(),
        stamp="pf-00000000-0000000000000",
        epoch=1,
        state=machine_state,
        boot_token_sha256=digest(boot_token(machine_id)),
        provider_id="31415",
        price_microusd_per_hour=300_000,
        ports=(PublicPort(internal=22, host="203.0.113.5", external=40022),),
        billing_started_at=now,
    )
    changes: list[Change] = []
    if machine_state == MachineState.READY:
        ready = now + timedelta(seconds=90)
        token = digest(machine_token(machine_id))
        machine = replace(machine, token_sha256=token, registered_at=now, ready_at=ready)
        changes.append(Create(a_pulse(machine)))
    on_machine = replace(pod, state=pod_state, desired=Desired.RUNNING, machine_id=machine.id)
    lease = Lease(pod_id=pod.id, machine_id=machine.id)
    leased = replace(volume, epoch=1, lease=lease)
    store.commit(Create(machine), Update(on_machine), Update(leased), *changes)
    return machine


def a_pulse(machine: Machine) -> Pulse:
    return Pulse(
        id=machine.id,
        account_id=machine.account_id,
        created_at=machine.created_at,
        heard_at=machine.created_at + timedelta(seconds=95),
        boot_id="boot-1",
        busy_until=machine.created_at,
        workload={"state": "serving", "exit_code": None, "detail": None},
        metrics={"cpu_percent": 12.5, "gpus": []},
    )


def machine_of(deployment: Deployment, pod_id: str) -> Machine:
    store = deployment.ports.store
    return store.get(Machine, store.get(Pod, pod_id).machine_id or "")


def an_open_snapshot(deployment: Deployment, pod_id: str) -> Snapshot:
    """What a capture of the pod's volume writes to."""
    store = deployment.ports.store
    pod, machine = store.get(Pod, pod_id), machine_of(deployment, pod_id)
    snapshot = Snapshot(
        id=deployment.use.records.new_id(Snapshot),
        account_id=pod.account_id,
        created_at=deployment.ports.clock.now(),
        kind=SnapshotKind.VOLUME,
        subject_id=pod.volume_id,
        pod_id=pod.id,
        machine_id=machine.id,
        epoch=machine.epoch,
        operation_id="op_none",
        parent_id=None,
    )
    store.commit(Create(snapshot))
    return snapshot


def commit_snapshot(deployment: Deployment, snapshot: Snapshot) -> Snapshot:
    """Say that it was verified."""
    committed = replace(
        snapshot,
        state=SnapshotState.COMMITTED,
        root=StoredObject(name="root", size=5, sha256="a" * 64),
        committed_at=deployment.ports.clock.now(),
        summary={"files": 3},
    )
    deployment.ports.store.commit(Update(committed))
    return committed


def end_operation(deployment: Deployment, operation_id: str) -> None:
    """Let the workflow be done."""
    store = deployment.ports.store
    operation = store.get(Operation, operation_id)
    now = deployment.ports.clock.now()
    done = replace(operation, state=OperationState.SUCCEEDED, ended_at=now, result={"files": 7})
    store.commit(Update(done))


def boot_token(machine_id: str) -> str:
    return f"pfb_{machine_id}_{'b' * 43}"


def machine_token(machine_id: str) -> str:
    return f"pfm_{machine_id}_{'m' * 43}"


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()
