"""Functions, doors, workflows and alarms are what the catalogue says."""

import pytest

from infra.alarms import SIGNALS
from infra.catalog import FUNCTIONS, WORKFLOWS
from infra.http_api import OPEN_ROUTES
from infra.sources import Sources
from tests.infra.templates import Assembly, Resource, Template, as_text

BY_NAME = {spec.name: spec for spec in FUNCTIONS}


@pytest.fixture
def control(assembly: Assembly) -> Template:
    return assembly.control


def test_every_directory_of_functions_is_deployed(control: Template, sources: Sources) -> None:
    written = {path.parent.name for path in sources.functions.glob("*/handler.py")}
    assert control.functions().keys() == written == BY_NAME.keys()


@pytest.mark.parametrize("name", BY_NAME)
def test_a_function_has_limits_and_its_own_log_and_role(control: Template, name: str) -> None:
    function = control.functions()[name]
    assert function["Timeout"] == BY_NAME[name].timeout_seconds
    assert function["MemorySize"] == BY_NAME[name].memory_mib
    assert (function["Runtime"], function["Architectures"]) == ("python3.12", ["x86_64"])
    assert function["Handler"] == "handler.handler"
    log_group = control.of_type("AWS::Logs::LogGroup")[function["LoggingConfig"]["LogGroup"]["Ref"]]
    assert log_group["Properties"]["LogGroupName"] == f"/aws/lambda/{function['FunctionName']}"


def test_no_two_functions_share_a_role(control: Template) -> None:
    roles = {function["Role"]["Fn::GetAtt"][0] for function in control.functions().values()}
    assert len(roles) == len(FUNCTIONS)


def test_every_log_is_forgotten_after_a_month(control: Template) -> None:
    groups = control.properties("AWS::Logs::LogGroup")
    assert {group["RetentionInDays"] for group in groups} == {30}


def test_functions_behind_the_api_answer_before_it_gives_up(control: Template) -> None:
    behind = ("api", "market", "provider_keys", "library", "secrets", "agent_api")
    for name in (*behind, "authorizer", "docs"):
        assert control.functions()[name]["Timeout"] < 30


def test_every_function_uses_both_layers(control: Template) -> None:
    layers = control.of_type("AWS::Lambda::LayerVersion").keys()
    for function in control.functions().values():
        assert {layer["Ref"] for layer in function["Layers"]} == layers


def test_the_asset_of_a_function_is_its_directory_only(
    assembly: Assembly, sources: Sources
) -> None:
    key = assembly.control.functions()["reconciler"]["Code"]["S3Key"]
    expected = {path.name for path in sources.function("reconciler").iterdir()}
    assert {path.name for path in assembly.asset(key).iterdir()} == expected - {"__pycache__"}


def test_the_podferry_layer_carries_the_boot_script(assembly: Assembly) -> None:
    layers = assembly.control.of_type("AWS::Lambda::LayerVersion")
    (layer,) = (one for name, one in layers.items() if name.startswith("Podferry"))
    package = assembly.asset(layer["Properties"]["Content"]["S3Key"]) / "python" / "podferry"
    assert (package / "data" / "bootstrap.sh").read_text() == "#!/bin/sh\n"
    assert (package / "settings.py").is_file()


def test_the_deployment_id_reaches_every_function(control: Template) -> None:
    for function in control.functions().values():
        variables = function["Environment"]["Variables"]
        assert variables["DEPLOYMENT_ID"] == {"Fn::ImportValue": "PodferryState-DeploymentId"}


def test_counters_of_all_functions_share_the_dimension_that_alarms_watch(control: Template) -> None:
    services = {
        function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for function in control.functions().values()
    }
    watched = [
        alarm
        for alarm in control.properties("AWS::CloudWatch::Alarm")
        if alarm["Namespace"] == "Podferry"
    ]
    assert {alarm["MetricName"] for alarm in watched} == set(SIGNALS)
    for alarm in watched:
        (dimension,) = alarm["Dimensions"]
        assert (dimension["Name"], {dimension["Value"]}) == ("service", services)


def test_routes_without_the_authorizer_are_those_of_the_docs(control: Template) -> None:
    routes = control.properties("AWS::ApiGatewayV2::Route")
    (authorizer,) = control.of_type("AWS::ApiGatewayV2::Authorizer")
    open_routes = {route["RouteKey"] for route in routes if route["AuthorizationType"] == "NONE"}
    assert open_routes == {f"{verb} {path}" for verb, path in OPEN_ROUTES["docs"]}
    for route in routes:
        if route["RouteKey"] not in open_routes:
            assert route["AuthorizationType"] == "CUSTOM"
            assert route["AuthorizerId"] == {"Ref": authorizer}


def test_the_authorizer_sees_every_request_and_remembers_none(control: Template) -> None:
    (authorizer,) = control.properties("AWS::ApiGatewayV2::Authorizer")
    assert authorizer["AuthorizerType"] == "REQUEST"
    assert authorizer["EnableSimpleResponses"] is True
    assert authorizer["IdentitySource"] == []
    assert authorizer["AuthorizerResultTtlInSeconds"] == 0


def test_each_route_leads_to_its_function(control: Template) -> None:
    integrations = control.of_type("AWS::ApiGatewayV2::Integration")

    def function_of(route: Resource) -> str:
        integration = as_text(route["Target"]).split("/")[1].strip("<>")
        return as_text(integrations[integration]["Properties"]["IntegrationUri"]).strip("<>")

    routes = control.properties("AWS::ApiGatewayV2::Route")
    leads = {route["RouteKey"]: function_of(route) for route in routes}
    assert leads["GET /v1/offers"].startswith("MarketFunction")
    assert leads["GET /v1/providers"].startswith("MarketFunction")
    assert leads["POST /agent/v1/{proxy+}"].startswith("AgentApiFunction")
    assert leads["GET /openapi.json"].startswith("DocsFunction")
    for verb in ("GET", "POST", "PATCH", "PUT", "DELETE"):
        assert leads[f"{verb} /v1/{{proxy+}}"].startswith("ApiFunction")
    assert not any(key.startswith(("ANY", "$default")) for key in leads)


def test_the_stage_is_throttled_and_its_log_holds_no_token(control: Template) -> None:
    (stage,) = control.properties("AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] > 0
    log_format = stage["AccessLogSettings"]["Format"].lower()
    assert "$context.requestid" in log_format
    assert not any(word in log_format for word in ("header", "querystring", "authorization"))


def test_promise_17_at_rest_two_calls_a_day_are_all_that_wakes_up(control: Template) -> None:
    rules = [
        (
            rule["State"],
            rule["ScheduleExpression"],
            sorted(as_text(target["Arn"]).split("Function")[0] for target in rule["Targets"]),
        )
        for rule in control.properties("AWS::Events::Rule")
        if "EventPattern" not in rule
    ]
    assert sorted(rules) == [
        ("DISABLED", "rate(1 minute)", ["<Autosave", "<Meter", "<Reconciler", "<Sweeper"]),
        ("ENABLED", "rate(1 day)", ["<Garbage"]),
        ("ENABLED", "rate(1 day)", ["<Sweeper"]),
    ]


def test_ec2_rings_at_the_sweeper_when_it_takes_an_instance_away(control: Template) -> None:
    rung = {
        rule["EventPattern"]["detail-type"][0]: rule
        for rule in control.properties("AWS::Events::Rule")
        if "EventPattern" in rule
    }
    assert set(rung) == {
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance State-change Notification",
    }
    for rule in rung.values():
        assert rule["EventPattern"]["source"] == ["aws.ec2"]
        (target,) = rule["Targets"]
        assert as_text(target["Arn"]).startswith("<SweeperFunction")
    states = rung["EC2 Instance State-change Notification"]["EventPattern"]["detail"]["state"]
    assert "pending" not in states
    assert "terminated" in states


def test_workflows_are_standard_and_log_errors_without_data(control: Template) -> None:
    machines = control.properties("AWS::StepFunctions::StateMachine")
    assert {machine["StateMachineName"] for machine in machines} == {
        f"podferry-PodferryControl-{spec.name}" for spec in WORKFLOWS
    }
    for machine in machines:
        assert machine["StateMachineType"] == "STANDARD"
        logging = machine["LoggingConfiguration"]
        assert (logging["Level"], logging["IncludeExecutionData"]) == ("ERROR", False)


def test_workflow_files_are_filled_in_with_the_three_step_functions(control: Template) -> None:
    for machine in control.properties("AWS::StepFunctions::StateMachine"):
        filled = {
            name: as_text(arn).split("Function")[0].strip("<")
            for name, arn in machine["DefinitionSubstitutions"].items()
        }
        assert filled == {
            "StepsPodsArn": "StepsPods",
            "StepsMachinesArn": "StepsMachines",
            "StepsSnapshotsArn": "StepsSnapshots",
            "StepsSharingArn": "StepsSharing",
        }


def test_every_function_and_workflow_rings_when_it_fails(control: Template) -> None:
    alarms = control.properties("AWS::CloudWatch::Alarm")
    watched = {(alarm["MetricName"], as_text(alarm["Dimensions"][0]["Value"])) for alarm in alarms}
    functions = control.of_type("AWS::Lambda::Function")
    machines = control.of_type("AWS::StepFunctions::StateMachine")
    assert {("Errors", f"<{name}>") for name in functions} <= watched
    for metric in ("ExecutionsFailed", "ExecutionsTimedOut"):
        assert {(metric, f"<{name}>") for name in machines} <= watched


def test_alarms_reach_the_topic_and_are_quiet_at_rest(control: Template) -> None:
    (topic,) = control.of_type("AWS::SNS::Topic")
    for alarm in control.properties("AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == [{"Ref": topic}]
        assert alarm["TreatMissingData"] == "notBreaching"


def test_the_public_url_is_the_given_one_or_the_apis_own(control: Template) -> None:
    assert control.body["Parameters"]["PublicUrl"]["Default"] == ""
    url = control.functions()["steps_machines"]["Environment"]["Variables"]["API_URL"]
    condition, given, own = url["Fn::If"]
    assert condition in control.body["Conditions"]
    assert given == {"Ref": "PublicUrl"}
    assert own["Fn::GetAtt"][1] == "ApiEndpoint"


def test_there_is_no_custom_resource(assembly: Assembly) -> None:
    for template in (assembly.state, assembly.control):
        kinds = {resource["Type"] for resource in template.body["Resources"].values()}
        assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))]
