"""What tests rent, and how they wait for it."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from podferry.adapters.ssh.installer import SshInstaller
from podferry.domain import errors
from podferry.domain.ids import STAMP_BITS, new_stamp
from podferry.domain.offer import Channel, Offer, Requirements
from podferry.ports.gpu_cloud import GpuCloud, LaunchRequest, MachineView, ViewState
from podferry.ports.installer import Access
from tests.contract.providers.simulation import wait_until

WANTED = Requirements(disk_gib=10)
OVER = {ViewState.GONE, ViewState.FAILED}
NEVER_UP = {ViewState.FAILED, ViewState.LOST, ViewState.STOPPED, ViewState.GONE}
"""What a machine may look like that failed to boot: a start gives it up."""
KEY_PAIR = SshInstaller().make_key()
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
        ssh_public_key=KEY_PAIR.public_key,
        disk_gib=WANTED.disk_gib,
    )


def rented_and_booted(cloud: GpuCloud, launch: LaunchRequest) -> str:
    """A machine that runs its bootstrap, or soon will."""
    made = cloud.create(launch)
    if launch.offer.channel is Channel.SSH:
        Visitor(cloud, made).install(launch)
    return made


class Visitor:
    """Goes to a machine as the workflow does, one short call after the other."""

    def __init__(self, cloud: GpuCloud, provider_id: str) -> None:
        self._installer = SshInstaller()
        self._cloud = cloud
        self._id = provider_id
        self.host_key: str | None = None

    @property
    def access(self) -> Access:
        wait_until(lambda: self._cloud.get(self._id).login is not None, "a login is shown")
        login = self._cloud.get(self._id).login
        assert login is not None
        return Access(login=login, private_key=KEY_PAIR.private_key, host_key=self.host_key)

    def install(self, launch: LaunchRequest) -> None:
        self.greet()
        self.until_done(lambda: self.upload(launch))
        self.start()

    def greet(self) -> None:
        def call() -> None:
            self.host_key = self._installer.greet(self.access)

        self.until_done(call)

    def upload(self, launch: LaunchRequest) -> None:
        self._installer.upload(self.access, launch)

    def start(self) -> None:
        self._installer.start(self.access)

    def until_done(self, call: Callable[[], None]) -> None:
        """Repeat it as long as the machine cannot be reached."""

        def is_done() -> bool:
            try:
                call()
            except errors.UnreachableError:
                return False
            return True

        wait_until(is_done, f"{self._id} is reached")


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
