"""A simulated AWS EC2 in one region, with the price list: virtual machines that run user data.

The wire is moto's, over AWS's service model; what instances are and do is ours, because they are
real boxes here and go wrong on demand. Not simulated: networks and security groups (any is taken),
volumes, stop and start, and signatures (only the access key id and a session's token are checked).
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar

from local.providers.billing import PerSecondWhole, with_disk_and_address
from local.providers.catalog import with_price_file
from local.providers.ec2_roles import Roles
from local.providers.ec2_view import (
    ADDRESS_USD_PER_HOUR,
    DISK_USD_PER_GB_MONTH,
    price_list,
    render,
    render_type,
    spot_prices,
)
from local.providers.ec2_wire import Ec2Call, Ec2Error, Ec2Wire, error_response, signer_of
from local.providers.instance import Instance, Phase
from local.providers.machine_types import EC2_TYPES, MachineType
from local.providers.simulator import Setup, Simulator
from local.providers.web import Handler, Request, Response, json_response

REGION = "us-east-1"
_PRICING = "AWSPriceListService.GetProducts"
_MOST_USER_DATA = 16_384
_LISTED_AFTER_END_SECONDS = 3600
_LARGEST_PAGE = 1000
_USER_SHUTDOWN = "Client.UserInitiatedShutdown"
_OWN_SHUTDOWN = "Client.InstanceInitiatedShutdown"
_SPOT_END = "Server.SpotInstanceTermination"
_HOST_END = "Server.ScheduledStop"


class Ec2Simulator(Simulator):
    """Speaks https://ec2.us-east-1.amazonaws.com, and GetProducts of the price list."""

    name: ClassVar[str] = "ec2"
    billing: ClassVar[PerSecondWhole] = PerSecondWhole(60)
    shows_stock: ClassVar[bool] = False
    unsupported_faults: ClassVar[frozenset[str]] = frozenset(
        # An instance shows no price.
        {"price_bump", "min_interval"}
    )
    own_faults: ClassVar[frozenset[str]] = frozenset(
        {
            "account_limit",
            "delete_not_now",
            "get_lag_seconds",
            "status_says",
            "terminating_seconds",
        }
    )

    def __init__(self, setup: Setup) -> None:
        self._types = {each.name: each for each in with_price_file(EC2_TYPES, setup.price_file)}
        self._wire = Ec2Wire()
        self._roles = Roles()
        self._actions: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "DescribeInstanceTypes": self._describe_types,
            "DescribeInstanceTypeOfferings": self._describe_offerings,
            "DescribeSpotPriceHistory": self._describe_spot_prices,
            "DescribeInstances": self._describe,
        }
        super().__init__(setup)

    @property
    def api_key(self) -> str:
        """The key as a customer of EC2 has it."""
        return json.dumps({"access_key_id": self._key, "secret_access_key": self._key})

    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        return (("POST", "/", self._call),)

    def presented_key(self, request: Request) -> str | None:
        signer = signer_of(request)
        if signer is None:
            return None
        # A session of a role that trusts us stands for the account's key.
        return self._key if self._roles.has(request, signer[0], self.clock.now()) else signer[0]

    def refuse(self, _request: Request, *, has_key: bool) -> Response | None:  # noqa: ARG002
        message = "AWS was not able to validate the provided access credentials"
        return error_response(Ec2Error("AuthFailure", message, 401))

    def too_many_requests(self, _request: Request) -> Response | None:
        if not self.faults.take("rate_limit"):
            return None
        return error_response(Ec2Error("RequestLimitExceeded", "Request limit exceeded.", 503))

    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:  # noqa: ARG002
        return error_response(Ec2Error("InvalidAction", f"no {request.method} {request.path}"))

    def broken_body(self, reason: str) -> Response:
        return error_response(Ec2Error("MalformedQueryString", reason))

    def internal_error(self) -> Response:
        return error_response(Ec2Error("InternalError", "An internal error has occurred", 500))

    def reclaimed_phase(self, instance: Instance) -> Phase:
        self._note(instance.id, _SPOT_END if instance.details["is_spot"] else _HOST_END)
        return Phase.GONE

    def settle(self) -> None:
        """A machine that has shut itself down is terminated, as every launch of ours asks for."""
        for instance in self.fleet.all():
            if instance.phase is Phase.EXITED:
                self._note(instance.id, _OWN_SHUTDOWN)
                ends = instance.details["on_shutdown"] == "terminate"
                self.fleet.end(instance.id, Phase.GONE if ends else Phase.STOPPED)

    def _note(self, instance_id: str, reason: str) -> None:
        def note(stored: Instance) -> None:
            stored.details["reason"] = reason

        self.fleet.change(instance_id, note)

    def handle(self, request: Request) -> Response:
        # STS is asked with the customer's own identity, which is none of this account's.
        return self._roles.take_on(request, self.clock.now()) or super().handle(request)

    def _call(self, request: Request) -> Response:
        if request.headers.get("x-amz-target") == _PRICING:
            return self._get_products(request)
        try:
            return self._do(self._wire.read(request))
        except Ec2Error as error:
            return error_response(error)

    def _do(self, call: Ec2Call) -> Response:
        match call.action:
            case "RunInstances":
                return self._run(call)
            case "TerminateInstances":
                return self._terminate(call)
            case action if action in self._actions:
                return self._wire.answer(call, self._actions[action](call.parameters))
        raise Ec2Error("InvalidAction", f"{call.action} is not simulated")

    def _get_products(self, request: Request) -> Response:
        asked = request.json_object()["Filters"]
        filters = {each["Field"]: each["Value"] for each in asked}
        is_here = filters.get("regionCode") == REGION
        machines = list(self._types.values()) if is_here else []
        return json_response(200, {"PriceList": price_list(machines, filters)})

    def _describe_types(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"InstanceTypes": [render_type(each) for each in self._types.values()]}

    def _describe_offerings(self, _: dict[str, Any]) -> dict[str, Any]:
        offerings = [
            {"InstanceType": each.name, "LocationType": "availability-zone", "Location": zone}
            for each in self._types.values()
            for zone in each.zones
        ]
        return {"InstanceTypeOfferings": offerings}

    def _describe_spot_prices(self, parameters: dict[str, Any]) -> dict[str, Any]:
        wanted = parameters.get("InstanceTypes", list(self._types))
        machines = [self._types[name] for name in wanted if name in self._types]
        return {"SpotPriceHistory": list(spot_prices(machines, self.clock.now()))}

    def _describe(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if "InstanceIds" in parameters:
            found = [self._existing(each) for each in parameters["InstanceIds"]]
            return {"Reservations": [self._show(each) for each in found]}
        filters = parameters.get("Filters", [])
        matching = [
            each for each in self.visible() if self._is_listed(each) and _matches(each, filters)
        ]
        size = min(
            parameters.get("MaxResults", _LARGEST_PAGE),
            int(self.faults.number("page_size", _LARGEST_PAGE)),
        )
        first = _page_start(parameters.get("NextToken"))
        page: dict[str, Any] = {
            "Reservations": [self._show(each) for each in matching[first : first + size]]
        }
        if first + size < len(matching):
            page |= {"NextToken": str(first + size)}
        return page

    def _show(self, instance: Instance) -> dict[str, Any]:
        shown = _reservation(instance)
        word = "shutting-down" if self.is_ending(instance) else self.faults.value("status_says")
        if word is not None:
            shown["Instances"][0]["State"]["Name"] = word
        return shown

    def _is_listed(self, instance: Instance) -> bool:
        is_over = instance.phase in {Phase.GONE, Phase.FAILED}
        return not is_over or self.clock.now() - instance.changed_at < _LISTED_AFTER_END_SECONDS

    def _existing(self, ec2_id: str) -> Instance:
        if not ec2_id.startswith("i-"):
            raise Ec2Error("InvalidInstanceID.Malformed", f'Invalid id: "{ec2_id}"')
        for instance in self.fleet.all():
            is_known = self._is_listed(instance) and not self.is_unknown(instance)
            if instance.id.endswith(f".{ec2_id}") and is_known:
                return instance
        raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{ec2_id}' does not exist")

    def _terminate(self, call: Ec2Call) -> Response:
        if len(call.parameters["InstanceIds"]) != 1:
            raise Ec2Error("InvalidParameterCombination", "One id per call is simulated")
        instance = self._existing(call.parameters["InstanceIds"][0])
        change = {
            "InstanceId": call.parameters["InstanceIds"][0],
            "PreviousState": render(instance)["State"],
            "CurrentState": {"Code": 32, "Name": "shutting-down"},
        }
        if self.faults.take("delete_not_now"):
            message = "The instance is not in a state from which it can be terminated."
            raise Ec2Error("IncorrectInstanceState", message)
        accepted = self._wire.answer(call, {"TerminatingInstances": [change]})
        if instance.phase is not Phase.GONE:
            self._note(instance.id, _USER_SHUTDOWN)
        return self.destroy(instance, accepted)

    def _run(self, call: Ec2Call) -> Response:
        asked = call.parameters
        machine = self._check(asked)
        known = self._of_token(asked)
        if known is not None:
            return self._wire.answer(call, _reservation(known))
        if self.faults.take("offer_gone"):
            raise Ec2Error("Unsupported", "The requested configuration is currently not supported.")
        if not self.in_stock([machine]):
            raise Ec2Error(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {machine.name} capacity in the "
                "Availability Zone you requested.",
                500,
            )
        if self.faults.value("account_limit"):
            message = "You have requested more vCPU capacity than your current limit allows."
            raise Ec2Error("VcpuLimitExceeded", message)
        if self.balance_micros <= 0:
            raise Ec2Error("Blocked", "Your account is currently blocked.", 403)
        instance = _instance_from(asked, machine, self.clock.now())
        return self.create(instance, self._wire.answer(call, _reservation(instance)))

    def _check(self, asked: dict[str, Any]) -> MachineType:
        machine = self._types.get(asked.get("InstanceType", ""))
        zone = asked.get("Placement", {}).get("AvailabilityZone")
        if machine is None:
            raise Ec2Error("InvalidParameterValue", "Invalid value for InstanceType")
        if zone not in machine.zones:
            raise Ec2Error("Unsupported", f"{machine.name} is not supported in {zone}")
        if len(_user_data(asked).encode()) > _MOST_USER_DATA:
            raise Ec2Error("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
        return machine

    def _of_token(self, asked: dict[str, Any]) -> Instance | None:
        for instance in self.fleet.all():
            if asked.get("ClientToken") == instance.details["token"]:
                if instance.details["asked"] != _fingerprint(asked):
                    raise Ec2Error(
                        "IdempotentParameterMismatch",
                        "Arguments on this idempotent request are inconsistent with arguments "
                        "used in previous request(s).",
                    )
                return instance
        return None


def _instance_from(asked: dict[str, Any], machine: MachineType, now: float) -> Instance:
    is_spot = asked.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    price = machine.spot_micros_per_hour if is_spot else machine.micros_per_hour
    tags = {
        tag["Key"]: tag["Value"]
        for each in asked.get("TagSpecifications", [])
        if each["ResourceType"] == "instance"
        for tag in each["Tags"]
    }
    return Instance(
        id=f"{REGION}.i-{secrets.token_hex(8)}0",
        name=tags.get("Name", ""),
        offer=machine.name,
        image=asked["ImageId"],
        argv=[],
        environment={},
        ports=[],
        gpu=machine.gpu,
        micros_per_hour=with_disk_and_address(
            price,
            int(asked["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]),
            Decimal(DISK_USD_PER_GB_MONTH),
            ADDRESS_USD_PER_HOUR,
        ),
        details={
            "type": machine.name,
            "zone": asked["Placement"]["AvailabilityZone"],
            "token": asked.get("ClientToken") or secrets.token_hex(16),
            "asked": _fingerprint(asked),
            "is_spot": is_spot,
            "launched_at": now,
            "on_shutdown": asked.get("InstanceInitiatedShutdownBehavior", "stop"),
            "tags": tags,
        },
        user_data=_user_data(asked),
    )


def _fingerprint(asked: dict[str, Any]) -> str:
    return json.dumps(asked, sort_keys=True, default=str)


def _user_data(asked: dict[str, Any]) -> str:
    return base64.b64decode(asked.get("UserData", "")).decode()


def _reservation(instance: Instance) -> dict[str, Any]:
    return {"ReservationId": f"r-{instance.id[-17:]}", "Instances": [render(instance)]}


def _matches(instance: Instance, filters: Sequence[dict[str, Any]]) -> bool:
    tags: dict[str, str] = instance.details["tags"]
    for each in filters:
        name, values = each["Name"], each["Values"]
        if name == "tag-key":
            is_met = any(value in tags for value in values)
        elif name.startswith("tag:"):
            is_met = tags.get(name.removeprefix("tag:")) in values
        else:
            raise Ec2Error("InvalidParameterValue", f"The filter '{name}' is not simulated")
        if not is_met:
            return False
    return True


def _page_start(token: str | None) -> int:
    if token is not None and not token.isdecimal():
        raise Ec2Error("InvalidPaginationToken", "The pagination token is invalid.")
    return int(token or 0)
