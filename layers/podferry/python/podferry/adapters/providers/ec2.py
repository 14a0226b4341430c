"""AWS EC2's GPU instances as a `GpuCloud`, on demand and spot.

From the EC2 API reference and botocore's service model as of 2026-11-30. What to keep in mind: our
stamp is the `ClientToken`, so a create call that is repeated makes nothing; ended instances stay
listed for about an hour; capacity is told at the create call, with status 500, or by an instance
that ends before it ran; an instance does not show its price.
"""

import logging
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any

from botocore.exceptions import ClientError

from podferry.adapters.providers.ec2_calls import (
    NOT_FOUND,
    Clients,
    clients_of,
    code_of,
    create_call,
    safe_call,
)
from podferry.adapters.providers.ec2_key import Ec2Key, read_key
from podferry.adapters.providers.ec2_offers import (
    PER_SECOND,
    SPOT_NOTICE_SECONDS,
    Ec2Market,
    volume_gib,
)
from podferry.adapters.providers.scrub import scrub
from podferry.adapters.providers.vm_launch import user_data
from podferry.domain.errors import NotGoneYetError, OutcomeUnknownError
from podferry.domain.machine import PublicPort
from podferry.domain.offer import Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import BootTraits, CloudTraits, LaunchRequest, MachineView, ViewState

_LOGGER = logging.getLogger(__name__)

MAX_USER_DATA = 16 * 1024
"""Before base64, which boto3 does."""
DEFAULT_IMAGE = (
    "resolve:ssm:/aws/service/deeplearning/ami/x86_64/"
    "base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
"""AWS's image with driver, Docker and NVIDIA's toolkit; EC2 itself looks the parameter up."""
STAMP_TAG = "podferry-stamp"
PORTS_TAG = "podferry-ports"
_ROOT_DEVICE = "/dev/sda1"
_PAGE_SIZE = 100

_STATES = {
    "pending": ViewState.PROVISIONING,
    "running": ViewState.STARTING,
    "stopping": ViewState.STOPPED,
    "stopped": ViewState.STOPPED,
    "shutting-down": ViewState.TERMINATING,
    "terminated": ViewState.GONE,
}
_NEVER_RAN = frozenset({
    "Server.InsufficientInstanceCapacity", "Server.InternalError", "Client.InternalError",
    "Client.VolumeLimitExceeded", "Client.InvalidSnapshot.NotFound",
})  # fmt: skip


class Ec2Cloud:
    """EC2 with one access key or role, in the regions that the key names."""

    name = "ec2"
    traits = CloudTraits(
        boots={
            Kind.VM: BootTraits(
                channel=Channel.CLOUD_INIT, bootstrap_limit=MAX_USER_DATA, deadline_seconds=900
            ),
            Kind.BAREMETAL: BootTraits(
                channel=Channel.CLOUD_INIT, bootstrap_limit=MAX_USER_DATA, deadline_seconds=1800
            ),
        },
        poll_seconds=10,
        listing_settles_seconds=60,
        failed_is_final=True,
        markets=(Market.ON_DEMAND, Market.SPOT),
        billing=PER_SECOND,
        can_cancel_starting=True,
        reclaim_notice_seconds=SPOT_NOTICE_SECONDS,
        shows_price=False,
        shows_billing_start=True,
    )
    """From the EC2 user guide. Limit: "instance user data". Notice: "spot instance interruption
    notices". Billing: "stop and start", a minute at least for each start."""
    # Token buckets, which refill faster than we ask; a full one answers RequestLimitExceeded.
    min_interval_seconds: dict[str, float] = {}  # noqa: RUF012 - part of the protocol, never changed

    def __init__(
        self, api_key: str, base_url: str | None = None, clients: Clients | None = None
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._given_clients = clients

    @cached_property
    def _key(self) -> Ec2Key:
        """Read at the first call: a bad key must not hide what this provider is."""
        return read_key(self._api_key)

    @cached_property
    def _clients(self) -> Clients:
        return self._given_clients or clients_of(self._key, self._base_url)

    @cached_property
    def _market(self) -> Ec2Market:
        return Ec2Market(self._clients)

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        """See the port."""
        regions = self._key.regions
        with safe_call(self._key):
            return [offer for each in regions for offer in self._market.offers(each, wanted)]

    def create(self, request: LaunchRequest) -> str:
        """See the port. Repeating it as it was makes nothing: the stamp is the token."""
        body = self._launch_body(request)
        region = str(request.offer.region)
        with create_call(self._key):
            answer = self._clients("ec2", region).run_instances(**body)
        made = [instance["InstanceId"] for instance in answer.get("Instances", [])]
        if len(made) != 1:
            raise OutcomeUnknownError("ec2 took the launch but named no instance")
        return _provider_id(region, made[0])

    def find(self, stamp: str) -> list[MachineView]:
        """See the port."""
        return self._listed({"Name": f"tag:{STAMP_TAG}", "Values": [stamp]})

    def list_machines(self) -> list[MachineView]:
        """See the port. Instances without our tag are somebody else's and are not asked for."""
        return self._listed({"Name": "tag-key", "Values": [STAMP_TAG]})

    def get(self, provider_id: str) -> MachineView:
        """See the port."""
        region, instance_id = self._place(provider_id)
        with safe_call(self._key):
            try:
                answer = self._clients("ec2", region).describe_instances(InstanceIds=[instance_id])
            except ClientError as error:
                if code_of(error) not in NOT_FOUND:
                    raise
                answer = {}
        for instance in _instances_in(answer):
            return view_of(region, instance)
        return MachineView.missing(provider_id, "NotFound")

    def give_up(self, provider_id: str) -> None:
        """See the port."""
        region, instance_id = self._place(provider_id)
        with safe_call(self._key):
            try:
                self._clients("ec2", region).terminate_instances(InstanceIds=[instance_id])
            except ClientError as error:
                if code_of(error) == "IncorrectInstanceState":
                    raise NotGoneYetError("ec2 cannot end the instance yet; ask again") from error
                if code_of(error) not in NOT_FOUND:
                    raise

    def _launch_body(self, request: LaunchRequest) -> dict[str, Any]:
        reference, region = request.offer.reference, str(request.offer.region)
        tags = [
            {"Key": "Name", "Value": request.stamp},
            {"Key": STAMP_TAG, "Value": request.stamp},
            {"Key": PORTS_TAG, "Value": " ".join(map(str, request.ports))},
        ]
        disk = {
            "VolumeSize": volume_gib(request.disk_gib),
            "VolumeType": "gp3",
            "DeleteOnTermination": True,
            "Encrypted": True,
        }
        body: dict[str, Any] = {
            "ImageId": self._key.image or DEFAULT_IMAGE,
            "InstanceType": reference["type"],
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": request.stamp,
            "UserData": user_data(request, MAX_USER_DATA),
            "Placement": {"AvailabilityZone": reference["zone"]},
            "BlockDeviceMappings": [{"DeviceName": _ROOT_DEVICE, "Ebs": disk}],
            "InstanceInitiatedShutdownBehavior": "terminate",
            # Two hops, so that the agent hears of a spot interruption from a bridged container too.
            "MetadataOptions": {
                "HttpEndpoint": "enabled",
                "HttpTokens": "required",
                "HttpPutResponseHopLimit": 2,
            },
            "TagSpecifications": [
                {"ResourceType": resource, "Tags": tags} for resource in ("instance", "volume")
            ],
        }
        if request.offer.market is Market.SPOT:
            body["InstanceMarketOptions"] = {
                "MarketType": "spot",
                # A persistent request would start another instance by itself.
                "SpotOptions": {
                    "SpotInstanceType": "one-time",
                    "InstanceInterruptionBehavior": "terminate",
                },
            }
        if groups := self._key.security_groups.get(region):
            body["SecurityGroupIds"] = groups
        if subnet := self._key.subnets.get(reference["zone"]):
            body["SubnetId"] = subnet
        return body

    def _listed(self, condition: dict[str, Any]) -> list[MachineView]:
        views: list[MachineView] = []
        with safe_call(self._key):
            for region in self._key.regions:
                pages = self._clients("ec2", region).get_paginator("describe_instances")
                asked = {"Filters": [condition], "PaginationConfig": {"PageSize": _PAGE_SIZE}}
                for page in pages.paginate(**asked):
                    views += [view_of(region, each) for each in _instances_in(page)]
        return views

    def _place(self, provider_id: str) -> tuple[str, str]:
        """The region of an instance, and EC2's own id of it."""
        region, _, instance_id = provider_id.rpartition(".")
        return region or self._key.regions[0], instance_id


def _provider_id(region: str, instance_id: str) -> str:
    """An id is only known in its region."""
    return f"{region}.{instance_id}"


def _instances_in(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for reservation in answer.get("Reservations", []):
        yield from reservation.get("Instances", [])


def view_of(region: str, instance: dict[str, Any]) -> MachineView:
    """What EC2 says of an instance, in our words."""
    tags = {tag["Key"]: tag.get("Value", "") for tag in instance.get("Tags", [])}
    raw = instance.get("State", {}).get("Name", "")
    reason = instance.get("StateReason", {})
    state = _STATES.get(raw, ViewState.UNKNOWN)
    if state is ViewState.GONE and reason.get("Code") in _NEVER_RAN:
        state = ViewState.FAILED
    return MachineView(
        provider_id=_provider_id(region, instance["InstanceId"]),
        stamp=tags.get(STAMP_TAG),
        state=state,
        raw_status=raw,
        reason=_reason(reason),
        ports=_ports(instance, tags) if raw == "running" else (),
        billing_started_at=None if raw == "pending" else _launched_at(instance),
    )


def _reason(reason: dict[str, Any]) -> str | None:
    code = reason.get("Code")
    if not code or code == "pending":
        return None
    return scrub(f"{code}: {reason.get('Message', '')}".rstrip(": "))


def _ports(instance: dict[str, Any], tags: dict[str, str]) -> tuple[PublicPort, ...]:
    """The pod has the VM's network: its ports are the VM's, as far as the security group allows."""
    host = instance.get("PublicIpAddress")
    numbers = [text for text in tags.get(PORTS_TAG, "").split() if text.isdecimal()]
    return tuple(
        PublicPort(internal=int(text), host=host, external=int(text)) for text in numbers if host
    )


def _launched_at(instance: dict[str, Any]) -> datetime | None:
    return instance.get("LaunchTime")
