"""What tests rent, and how they wait for it."""

from __future__ import annotations

import secrets

from podferry.domain import errors
from podferry.domain.ids import STAMP_BITS, new_stamp
from podferry.domain.offer import Offer, Requirements
from podferry.ports.gpu_cloud import GpuCloud, LaunchRequest, MachineView, ViewState
from tests.contract.providers.simulation import wait_until

WANTED = Requirements(disk_gib=10)
OVER = {ViewState.GONE, ViewState.FAILED}
NEVER_UP = {ViewState.FAILED, ViewState.LOST, ViewState.STOPPED, ViewState.GONE}
"""What a machine may look like that failed to boot: a start gives it up."""
_WAITS = "exec sleep 3600"


def cheapest(cloud: GpuCloud, wanted: Requirements = WANTED) -> Offer:
    return min(cloud.list_offers(wanted), key=lambda offer: offer.price_microusd_per_hour)


def a_launch(cloud: GpuCloud, bootstrap: str = _WAITS) -> LaunchRequest:
    return LaunchRequest(
        stamp=new_stamp("0a1b2c3d", secrets.randbits(STAMP_BITS)),
        offer=cheapest(cloud),
        image="docker.io/example/gpu-base:1",
        bootstrap=bootstrap,
        environment={"PF_TOKEN": "pfb_one_time"},
        ports=(22, 8443),
        disk_gib=WANTED.disk_gib,
    )


def wait_for(cloud: GpuCloud, provider_id: str, state: ViewState) -> MachineView:
    wait_until(lambda: cloud.get(provider_id).state is state, f"{provider_id} is {state}")
    return cloud.get(provider_id)


def end(cloud: GpuCloud, provider_id: str) -> None:
    """Give a machine up and wait for the provider's word."""

    def is_over() -> bool:
        try:
            cloud.give_up(provider_id)
        except errors.NotGoneYetError:
            return False
        return cloud.get(provider_id).state in OVER

    wait_until(is_over, f"{provider_id} is over")
