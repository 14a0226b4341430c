"""EC2's bodies through the adapter, and the adapter against moto's EC2."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.stub import ANY, Stubber
from moto import mock_aws

from podferry.adapters.providers.ec2 import DEFAULT_IMAGE, Ec2Cloud
from podferry.adapters.providers.ec2_offers import IMAGE_GIB
from podferry.domain import errors
from podferry.domain.machine import PublicPort
from podferry.domain.offer import BillingRule, Channel, Kind, Market, Offer, Requirements
from podferry.ports.gpu_cloud import ViewState
from tests.unit.providers.support import STAMP, a_launch, an_offer, bodies

BODIES = bodies("ec2")
SECRET = "canary-secret-access-key"
KEY = json.dumps({"access_key_id": "AKIASIM", "secret_access_key": SECRET})
ROLE = "arn:aws:iam::123456789012:role/podferry"
ID = "us-east-1.i-0abc1234567890def"
OFFER = an_offer(
    "ec2",
    {"type": "g6.xlarge", "zone": "us-east-1b", "market": "spot"},
    kind=Kind.VM,
    market=Market.SPOT,
    region="us-east-1",
)
SAFE_CALLS: dict[str, Callable[[Ec2Cloud], object]] = {
    "find": lambda cloud: cloud.find(STAMP),
    "list_machines": lambda cloud: cloud.list_machines(),
    "get": lambda cloud: cloud.get(ID),
    "give_up": lambda cloud: cloud.give_up(ID),
}
OPERATIONS = {
    "find": "describe_instances",
    "list_machines": "describe_instances",
    "get": "describe_instances",
    "give_up": "terminate_instances",
}


class Aws:
    """Clients that answer in turn, each checked against AWS's own description of the call."""

    def __init__(self) -> None:
        self.stubs: dict[tuple[str, str], Stubber] = {}
        self._clients: dict[tuple[str, str], Any] = {}

    def client(self, service: str, region: str) -> Any:
        self.stub(service, region)
        return self._clients[(service, region)]

    def stub(self, service: str = "ec2", region: str = "us-east-1") -> Stubber:
        place = (service, region)
        if place not in self.stubs:
            config = Config(retries={"total_max_attempts": 1})
            options = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "config": config}
            self._clients[place] = boto3.client(service, region, **options)
            self.stubs[place] = Stubber(self._clients[place])
            self.stubs[place].activate()
        return self.stubs[place]


@pytest.fixture
def aws() -> Aws:
    return Aws()


@pytest.fixture
def cloud(aws: Aws) -> Ec2Cloud:
    return Ec2Cloud(KEY, clients=aws.client)


def an_instance(example: str = "running", **values: Any) -> dict[str, Any]:
    instance = {**BODIES[example], **values}
    instance["LaunchTime"] = datetime.fromisoformat(instance["LaunchTime"])
    return instance


def listed(*instances: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Reservations": [{"Instances": [each]} for each in instances], **more}


def answer_catalog(aws: Aws, *, is_spot_asked: bool = True) -> None:
    ec2, pricing = aws.stub(), aws.stub("pricing")
    ec2.add_response("describe_instance_types", BODIES["instance_types"])
    ec2.add_response("describe_instance_type_offerings", BODIES["offerings"])
    for name in ("price_list", "disk_price"):
        products = [json.dumps(product) for product in BODIES[name]]
        pricing.add_response("get_products", {"PriceList": products})
    if is_spot_asked:
        answer_spot(aws)


def answer_spot(aws: Aws) -> None:
    prices = [
        {**price, "Timestamp": datetime.fromisoformat(price["Timestamp"])}
        for price in BODIES["spot_prices"]["SpotPriceHistory"]
    ]
    aws.stub().add_response("describe_spot_price_history", {"SpotPriceHistory": prices})


def test_offers_are_types_with_zone_market_and_the_whole_price(aws: Aws, cloud: Ec2Cloud) -> None:
    answer_catalog(aws)

    offers = cloud.list_offers(Requirements(disk_gib=25))

    # 100 GB of disk are 100 * 0.08 / 730 dollars, the address is 0.005.
    assert {(o.reference["zone"], o.market): o.price_microusd_per_hour for o in offers} == {
        ("us-east-1a", Market.ON_DEMAND): 820_759,
        ("us-east-1b", Market.ON_DEMAND): 820_759,
        ("us-east-1b", Market.SPOT): 328_359,
    }
    assert offers[-1] == Offer(
        provider="ec2",
        reference={"type": "g6.xlarge", "zone": "us-east-1b", "market": "spot"},
        host=None,
        kind=Kind.VM,
        market=Market.SPOT,
        channel=Channel.CLOUD_INIT,
        gpu_name="L4",
        gpu_count=1,
        vram_mib_per_gpu=22_888,
        vcpus=4.0,
        memory_mib=16_384,
        disk_gib=25,
        country="US",
        region="us-east-1",
        price_microusd_per_hour=328_359,
        billing=BillingRule(increment_seconds=1, minimum_seconds=60),
        reclaim_notice_seconds=120,
    )


def test_the_catalog_is_read_once_and_spot_prices_each_time(aws: Aws, cloud: Ec2Cloud) -> None:
    answer_catalog(aws)
    cloud.list_offers(Requirements())
    answer_spot(aws)

    assert cloud.list_offers(Requirements())
    aws.stub().assert_no_pending_responses()


def test_models_have_our_names_and_a_market_that_is_not_sold_is_not_offered(
    aws: Aws, cloud: Ec2Cloud
) -> None:
    answer_catalog(aws)

    offers = cloud.list_offers(Requirements(gpu_names=("H100 SXM",), gpu_count=8))

    assert [(offer.gpu_name, offer.market) for offer in offers] == [("H100 SXM", Market.ON_DEMAND)]


def test_a_launch_is_a_spot_machine_that_ends_itself_and_carries_the_stamp(
    aws: Aws, cloud: Ec2Cloud
) -> None:
    sent: dict[str, Any] = {}
    aws.client("ec2", "us-east-1").meta.events.register(
        "before-parameter-build.ec2.RunInstances", lambda params, **_: sent.update(params)
    )
    aws.stub().add_response("run_instances", {"Instances": [an_instance("pending")]})

    assert cloud.create(a_launch(OFFER, disk_gib=40)) == ID

    assert sent["ClientToken"] == STAMP
    assert sent["ImageId"] == DEFAULT_IMAGE
    assert (sent["MinCount"], sent["MaxCount"]) == (1, 1)
    assert sent["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert sent["MetadataOptions"]["HttpTokens"] == "required"
    assert sent["InstanceMarketOptions"]["SpotOptions"] == {
        "SpotInstanceType": "one-time",
        "InstanceInterruptionBehavior": "terminate",
    }
    disk = sent["BlockDeviceMappings"][0]["Ebs"]
    assert (disk["VolumeSize"], disk["DeleteOnTermination"]) == (IMAGE_GIB + 40, True)
    assert {tag["Key"]: tag["Value"] for tag in sent["TagSpecifications"][0]["Tags"]} == {
        "Name": STAMP,
        "podferry-stamp": STAMP,
        "podferry-ports": "22 8443",
    }
    assert base64.b64decode(sent["UserData"]).startswith(b"#!/bin/sh\n")
    assert "SubnetId" not in sent


def test_on_demand_asks_for_no_market_and_the_keys_network_is_used(aws: Aws) -> None:
    key = json.loads(KEY) | {
        "image": "ami-1",
        "security_groups": {"us-east-1": ["sg-1"]},
        "subnets": {"us-east-1b": "subnet-1"},
    }
    cloud = Ec2Cloud(json.dumps(key), clients=aws.client)
    sent: dict[str, Any] = {}
    aws.client("ec2", "us-east-1").meta.events.register(
        "before-parameter-build.ec2.RunInstances", lambda params, **_: sent.update(params)
    )
    aws.stub().add_response("run_instances", {"Instances": [an_instance("pending")]})

    cloud.create(a_launch(an_offer("ec2", OFFER.reference, region="us-east-1")))

    assert "InstanceMarketOptions" not in sent
    assert (sent["ImageId"], sent["SecurityGroupIds"], sent["SubnetId"]) == (
        "ami-1",
        ["sg-1"],
        "subnet-1",
    )


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("InsufficientInstanceCapacity", 500, errors.NoCapacityError),
        ("UnfulfillableCapacity", 500, errors.NoCapacityError),
        ("Unsupported", 400, errors.OfferGoneError),
        ("VcpuLimitExceeded", 400, errors.QuotaExceededError),
        ("MaxSpotInstanceCountExceeded", 400, errors.QuotaExceededError),
        ("IdempotentParameterMismatch", 400, errors.OutcomeUnknownError),
        ("InternalError", 500, errors.OutcomeUnknownError),
        ("Unavailable", 503, errors.OutcomeUnknownError),
        ("RequestLimitExceeded", 503, errors.ProviderBusyError),
        ("AuthFailure", 401, errors.KeyRefusedError),
        ("PendingVerification", 400, errors.ProviderRefusedError),
        ("InvalidParameterValue", 400, errors.ProviderRefusedError),
    ],
)
def test_case_p1_every_code_at_the_create_call_says_whether_a_machine_may_exist(
    aws: Aws, cloud: Ec2Cloud, code: str, status: int, error: type[errors.CloudError]
) -> None:
    aws.stub().add_client_error("run_instances", code, f"no: {SECRET}", status)

    with pytest.raises(errors.CloudError) as raised:
        cloud.create(a_launch(OFFER))

    assert type(raised.value) is error
    assert code in raised.value.detail
    assert SECRET not in raised.value.detail


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (ConnectTimeoutError(endpoint_url="x"), errors.ProviderBusyError),
        (ReadTimeoutError(endpoint_url="x"), errors.OutcomeUnknownError),
    ],
)
def test_case_p1_a_create_that_left_is_unknown_and_one_that_did_not_is_busy(
    failure: Exception, error: type[errors.CloudError]
) -> None:
    class Broken:
        def run_instances(self, **_: Any) -> None:
            raise failure

    with pytest.raises(error):
        Ec2Cloud(KEY, clients=lambda *_: Broken()).create(a_launch(OFFER))


@pytest.mark.parametrize(
    ("example", "state", "reason"),
    [
        ("pending", ViewState.PROVISIONING, None),
        ("running", ViewState.STARTING, None),
        ("stopped", ViewState.STOPPED, ANY),
        ("shutting-down_spot", ViewState.TERMINATING, ANY),
        ("terminated_spot", ViewState.GONE, "Server.SpotInstanceTermination"),
        ("terminated_by_us", ViewState.GONE, "Client.UserInitiatedShutdown"),
        (
            "terminated_no_capacity_after_accept",
            ViewState.FAILED,
            "Server.InsufficientInstanceCapacity",
        ),
    ],
)
def test_states_and_reasons(
    aws: Aws, cloud: Ec2Cloud, example: str, state: ViewState, reason: str | None
) -> None:
    aws.stub().add_response("describe_instances", listed(an_instance(example)))

    view = cloud.get(ID)

    assert (view.provider_id, view.stamp, view.state) == (ID, STAMP, state)
    assert reason is ANY or str(view.reason).startswith(str(reason))


def test_a_running_machine_has_its_own_ports_and_no_price(aws: Aws, cloud: Ec2Cloud) -> None:
    aws.stub().add_response("describe_instances", listed(an_instance()))

    view = cloud.get(ID)

    assert view.ports == (
        PublicPort(internal=22, host="203.0.113.40", external=22),
        PublicPort(internal=8443, host="203.0.113.40", external=8443),
    )
    assert view.price_microusd_per_hour is None
    assert view.billing_started_at == datetime(2026, 11, 30, 11, 10, 20, tzinfo=UTC)


def test_lists_read_every_page_of_every_region(aws: Aws) -> None:
    key = json.dumps(json.loads(KEY) | {"regions": ["us-east-1", "eu-west-1"]})
    cloud = Ec2Cloud(key, clients=aws.client)
    asked = {"Filters": [{"Name": "tag-key", "Values": ["podferry-stamp"]}], "MaxResults": 100}
    first = listed(an_instance(InstanceId="i-1"), NextToken="more")
    aws.stub().add_response("describe_instances", first, asked)
    aws.stub().add_response(
        "describe_instances", listed(an_instance(InstanceId="i-2")), asked | {"NextToken": "more"}
    )
    aws.stub(region="eu-west-1").add_response(
        "describe_instances", listed(an_instance(InstanceId="i-3")), asked
    )

    views = cloud.list_machines()

    assert [view.provider_id for view in views] == [
        "us-east-1.i-1",
        "us-east-1.i-2",
        "eu-west-1.i-3",
    ]


@pytest.mark.parametrize("name", SAFE_CALLS)
@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("RequestLimitExceeded", 503, errors.ProviderBusyError),
        ("InternalError", 500, errors.ProviderBusyError),
        ("UnauthorizedOperation", 403, errors.ProviderRefusedError),
    ],
)
def test_safe_calls_are_busy_or_refused(
    aws: Aws, cloud: Ec2Cloud, name: str, code: str, status: int, error: type[errors.CloudError]
) -> None:
    aws.stub().add_client_error(OPERATIONS[name], code, "no", status)

    with pytest.raises(error):
        SAFE_CALLS[name](cloud)


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"])
def test_what_ec2_does_not_have_is_gone_without_a_stamp(
    aws: Aws, cloud: Ec2Cloud, code: str
) -> None:
    aws.stub().add_client_error("describe_instances", code, "no", 400)
    aws.stub().add_client_error("terminate_instances", code, "no", 400)

    view = cloud.get(ID)
    cloud.give_up(ID)

    assert (view.state, view.stamp) == (ViewState.GONE, None)


@contextmanager
def motos_cloud(**values: Any) -> Iterator[Ec2Cloud]:
    with mock_aws():
        image = boto3.client("ec2", "us-east-1").describe_images()["Images"][0]["ImageId"]
        yield Ec2Cloud(json.dumps(json.loads(KEY) | {"image": image} | values))


def test_moto_takes_the_launch_and_shows_the_machine_until_after_its_end() -> None:
    with motos_cloud() as cloud:
        made = cloud.create(a_launch(OFFER))

        assert [view.provider_id for view in cloud.find(STAMP)] == [made]
        view = cloud.get(made)
        assert (view.stamp, view.state) == (STAMP, ViewState.STARTING)
        assert [port.internal for port in view.ports] == [22, 8443]
        cloud.give_up(made)
        cloud.give_up(made)
        assert cloud.get(made).state is ViewState.GONE
        assert cloud.get("us-east-1.i-00000000000000000").stamp is None


def test_motos_refusal_of_an_unknown_network_is_the_providers_no() -> None:
    with (
        motos_cloud(subnets={"us-east-1b": "subnet-00000000"}) as cloud,
        pytest.raises(errors.ProviderRefusedError, match="InvalidSubnetID"),
    ):
        cloud.create(a_launch(OFFER))
