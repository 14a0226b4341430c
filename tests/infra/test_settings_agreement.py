"""The environment that the templates set is the one that the code reads."""

from inspect import getattr_static
from types import FunctionType
from typing import Any

import pytest

from podferry.adapters.providers.registry import PROVIDERS
from podferry.bootstrap import Application, AwsPorts
from podferry.domain.errors import InternalError
from podferry.http import use_cases
from podferry.settings import Settings, read_settings
from podferry.steps import STEPS
from tests.infra.templates import Assembly

# What the runtime and the logger read by themselves.
OF_THE_TOOLS = {"LOG_LEVEL", "POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE"}

OF_EVERY_FRONT = {"clock", "replies"}
OF_THE_AGENT_API = {
    "register_agent",
    "heartbeat",
    "sign_uploads",
    "sign_downloads",
    "record_capture",
    "append_output",
    "ask_save",
    "take_notice",
    "give_secrets",
}
OF_THE_LIBRARY = {"keep_pod", "look"}
ALL_HTTP = {name for name in vars(use_cases.UseCases) if not name.startswith("_")}
USE_CASES = {
    "api": ALL_HTTP
    - OF_THE_AGENT_API
    - OF_THE_LIBRARY
    - {"market", "provider_keys", "secrets", "identify"},
    "market": {"market", "clouds", *OF_EVERY_FRONT},
    "provider_keys": {"provider_keys", *OF_EVERY_FRONT},
    "library": OF_THE_LIBRARY | OF_EVERY_FRONT,
    "secrets": {"secrets", *OF_EVERY_FRONT},
    "agent_api": OF_THE_AGENT_API | OF_EVERY_FRONT,
    "authorizer": {"identify"},
    "reconciler": {"reconcile"},
    "autosave": {"autosave"},
    "sweeper": {"sweep"},
    "meter": {"run_meters"},
    "garbage": {"collect_garbage"},
}


class Asked:
    """Stands in for the application and writes down which use cases a step asks it for."""

    def __init__(self) -> None:
        self.names: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr_static(Application, name), FunctionType):
            return lambda kind: self._note(name, kind)
        return self._note(name)

    def _note(self, name: str, *arguments: Any) -> Any:
        self.names.append((name, arguments))
        return _Runs()


class _Runs:
    def run(self, *_arguments: object) -> None:
        return None


def environment_of(assembly: Assembly, function: str) -> dict[str, str]:
    """The function's variables with stand-ins for what only a deployment knows."""
    variables = assembly.control.functions()[function]["Environment"]["Variables"]
    known = {name: value if isinstance(value, str) else "x" for name, value in variables.items()}
    read = {"DEPLOYMENT_ID": "0123abcd", "IMAGE_REGISTRIES": ""}
    return known | {name: value for name, value in read.items() if name in known}


class PortsOfALayer(AwsPorts):
    """The boot script is package data of the layer, which the source tree does not have."""

    boot_script = "#!/bin/sh\n"


def an_application(assembly: Assembly, function: str) -> Application:
    return Application(PortsOfALayer(read_settings(environment_of(assembly, function))))


def test_every_variable_in_the_templates_is_one_that_somebody_reads(assembly: Assembly) -> None:
    read = {field.alias for field in Settings.model_fields.values()} | OF_THE_TOOLS
    for function in assembly.control.functions():
        assert environment_of(assembly, function).keys() <= read, function


def test_every_setting_is_set_for_some_function(assembly: Assembly) -> None:
    read = {field.alias for field in Settings.model_fields.values()}
    functions = assembly.control.functions()
    assert read <= {name for one in functions for name in environment_of(assembly, one)}


@pytest.mark.parametrize("function", USE_CASES)
def test_a_function_can_build_every_use_case_that_it_serves(
    assembly: Assembly, function: str
) -> None:
    application = an_application(assembly, function)
    for name in sorted(USE_CASES[function]):
        assert getattr(application, name) is not None


@pytest.mark.parametrize(
    ("function", "step"), [(function, step) for function in STEPS for step in STEPS[function]]
)
def test_a_step_function_can_build_what_each_of_its_steps_needs(
    assembly: Assembly, function: str, step: str
) -> None:
    asked = Asked()
    STEPS[function][step](asked, {"operation_id": "op_x", "task_token": "t", "error": _an_error()})
    application = an_application(assembly, function)
    assert application.operations is not None
    assert asked.names
    for name, arguments in asked.names:
        use_case = getattr(application, name)
        assert (use_case(*arguments) if arguments else use_case) is not None


def test_the_step_that_rents_can_read_its_ports(assembly: Assembly) -> None:
    ports = AwsPorts(read_settings(environment_of(assembly, "steps_machines")))
    assert ports.api_url == "x"
    assert (
        ports.bundle.sha256() == environment_of(assembly, "steps_machines")["AGENT_BUNDLE_SHA256"]
    )


def test_a_function_without_the_right_to_the_keys_knows_which_providers_there_are(
    assembly: Assembly,
) -> None:
    ports = AwsPorts(read_settings(environment_of(assembly, "api")))
    assert ports.clouds.known() == sorted(PROVIDERS)
    with pytest.raises(InternalError, match="PROVIDER_KEYS_SECRET_ARN"):
        ports.clouds.names()


def _an_error() -> dict[str, str]:
    return {"Error": "AgentFailedError", "Cause": "{}"}
