"""What `ports/installer.py` promises, held against real machines of every provider of bare ones."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from podferry.adapters.providers.registry import ProviderAdapter
from podferry.domain import errors
from podferry.domain.offer import Kind
from podferry.ports.gpu_cloud import LaunchRequest, ViewState
from tests.contract.providers.machines import Visitor, a_launch, end, wait_for
from tests.contract.providers.simulation import Simulation, wait_until

bare = pytest.mark.parametrize("running_simulation", ["fluence-vm"], indirect=True)
SAYS = "echo up >>/said; exec sleep 3600"
TOKEN = "pfb_mach_1_" + "c" * 43


def rent(cloud: ProviderAdapter) -> tuple[str, LaunchRequest, Visitor]:
    launch = replace(a_launch(cloud, SAYS), environment={"PF_TOKEN": TOKEN})
    made = cloud.create(launch)
    return made, launch, Visitor(cloud, made)


def runs(simulation: Simulation, made: str) -> str:
    wait_until(lambda: "up" in simulation.read(made, "/said"), "the bootstrap ran")
    return simulation.read(made, "/said")


@bare
def test_nothing_runs_before_it_is_brought(simulation: Simulation, cloud: ProviderAdapter) -> None:
    made, launch, visitor = rent(cloud)
    visitor.greet()
    visitor.upload(launch)
    assert simulation.read(made, "/said") == ""

    visitor.start()

    assert runs(simulation, made) == "up\n"


@bare
def test_a_server_that_is_late_is_not_reached_and_then_is(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(ssh_late_seconds=1)
    made, launch, visitor = rent(cloud)

    with pytest.raises(errors.UnreachableError):
        visitor.start()
    visitor.install(launch)

    assert runs(simulation, made) == "up\n"


@bare
def test_a_machine_with_another_key_refuses_us(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(ssh_wrong_key=1)
    made, _, visitor = rent(cloud)

    with pytest.raises(errors.LoginRefusedError, match="does not take our key"):
        visitor.greet()

    end(cloud, made)


@bare
def test_an_upload_that_is_cut_off_leaves_nothing_and_the_next_one_is_whole(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(ssh_drops=1)
    made, launch, visitor = rent(cloud)
    visitor.greet()

    with pytest.raises(errors.UnreachableError):
        visitor.upload(launch)
    with pytest.raises(errors.BootFailedError, match="nothing"):
        visitor.start()
    visitor.upload(launch)
    visitor.start()

    assert runs(simulation, made) == "up\n"


@bare
def test_case_p3_a_machine_that_dies_before_the_start_is_not_reached_and_can_be_ended(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(ssh_dies=1)
    made, launch, visitor = rent(cloud)
    visitor.greet()
    # Whether the answer comes before the end is chance.
    with contextlib.suppress(errors.UnreachableError):
        visitor.upload(launch)

    with pytest.raises(errors.UnreachableError):
        visitor.start()

    assert wait_for(cloud, made, ViewState.STARTING).state is ViewState.STARTING
    end(cloud, made)


@bare
def test_another_host_key_is_refused_before_anything_is_sent(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    simulation.set_faults(ssh_changes_key=1)
    made, launch, visitor = rent(cloud)
    visitor.greet()

    with pytest.raises(errors.HostChangedError):
        visitor.until_done(lambda: visitor.upload(launch))

    assert simulation.read(made, "/said") == ""


@bare
def test_case_p4_however_often_it_is_started_the_bootstrap_runs_once(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made, launch, visitor = rent(cloud)
    visitor.greet()
    visitor.upload(launch)

    def start() -> None:
        try:
            visitor.start()
        except (errors.UnreachableError, errors.HostChangedError):
            return  # The first one has the machine's own server ended.

    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: start(), range(4)))

    assert runs(simulation, made) == "up\n"


@bare
def test_promise_11_no_command_line_and_no_log_shows_the_token(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made, launch, visitor = rent(cloud)
    visitor.install(launch)
    runs(simulation, made)

    lines = [_command_line(process) for process in Path("/proc").glob("[0-9]*")]

    assert any(b"podferry" in line for line in lines), "the container's is among them"
    assert not [line for line in lines if TOKEN.encode() in line]
    assert TOKEN not in simulation.log(made)


@pytest.mark.parametrize("running_simulation", ["fluence-baremetal"], indirect=True)
def test_bare_metal_is_opened_in_the_same_way(
    simulation: Simulation, cloud: ProviderAdapter
) -> None:
    made, launch, visitor = rent(cloud)
    visitor.install(launch)

    assert launch.offer.kind is Kind.BAREMETAL
    assert runs(simulation, made) == "up\n"


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""  # It has ended.
