"""The ports over AWS, each built on first use from the settings that its function has."""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from typing import TypeVar

from podferry.adapters.aws.bundle import BundleSource, S3AgentBundle
from podferry.adapters.aws.clients import AwsClients
from podferry.adapters.aws.objects import S3SnapshotObjects
from podferry.adapters.aws.own_keys import SecretsKeyVault, Shelf
from podferry.adapters.aws.provider_keys import SecretsProviderKeys
from podferry.adapters.aws.schedules import EventBridgeSchedules
from podferry.adapters.aws.secrets import SecretsOperatorKey
from podferry.adapters.aws.signals import MetricSignals
from podferry.adapters.aws.surroundings import SystemClock, SystemRandomness
from podferry.adapters.aws.workflows import StepFunctionsWorkflows
from podferry.adapters.dynamo.store import DynamoStore
from podferry.adapters.providers.clouds import KeyedClouds, ProviderKey
from podferry.adapters.registries.http import HttpRegistries, parse_addresses
from podferry.domain.errors import InternalError
from podferry.domain.snapshot import SnapshotKind
from podferry.ports.gpu_cloud import GpuClouds
from podferry.ports.image_registry import ImageRegistries
from podferry.ports.installer import Installer
from podferry.ports.key_vault import KeyVault, SecretVault
from podferry.ports.objects import AgentBundle, SnapshotObjects
from podferry.ports.store import Store
from podferry.ports.surroundings import Clock, OperatorKey, Randomness, Schedules, Signals
from podferry.ports.workflows import Workflow, Workflows
from podferry.settings import Settings

T = TypeVar("T")


def _needed(value: T | None, name: str) -> T:
    if value is None:
        raise InternalError(f"this function is not set up with {name}")
    return value


class AwsPorts:
    """The ports over AWS, from a function's settings."""

    def __init__(self, settings: Settings, clients: AwsClients | None = None) -> None:
        self._settings = settings
        self._clients = clients or AwsClients()
        self.clock: Clock = SystemClock()
        self.randomness: Randomness = SystemRandomness()
        self.signals: Signals = MetricSignals()
        self.deployment_id = settings.deployment_id

    @cached_property
    def store(self) -> Store:
        return DynamoStore(self._clients, self._settings.table_name)

    @cached_property
    def objects(self) -> SnapshotObjects:
        settings = self._settings
        return S3SnapshotObjects(
            self._clients,
            {
                SnapshotKind.ENVIRONMENT: _needed(
                    settings.environments_bucket, "ENVIRONMENTS_BUCKET"
                ),
                SnapshotKind.VOLUME: _needed(settings.volumes_bucket, "VOLUMES_BUCKET"),
            },
        )

    @cached_property
    def bundle(self) -> AgentBundle:
        settings = self._settings
        source = BundleSource(
            bucket=_needed(settings.agent_bundle_source_bucket, "AGENT_BUNDLE_SOURCE_BUCKET"),
            key=_needed(settings.agent_bundle_source_key, "AGENT_BUNDLE_SOURCE_KEY"),
            sha256=_needed(settings.agent_bundle_sha256, "AGENT_BUNDLE_SHA256"),
        )
        return S3AgentBundle(self._clients, _needed(settings.agent_bucket, "AGENT_BUCKET"), source)

    @cached_property
    def workflows(self) -> Workflows:
        settings = self._settings
        named = {
            Workflow.LAUNCH: settings.launch_workflow_arn,
            Workflow.STOP: settings.stop_workflow_arn,
            Workflow.MOVE: settings.move_workflow_arn,
            Workflow.PROOF: settings.proof_workflow_arn,
            Workflow.SHARE: settings.share_workflow_arn,
        }
        return StepFunctionsWorkflows(
            self._clients, {name: arn for name, arn in named.items() if arn is not None}
        )

    @cached_property
    def clouds(self) -> GpuClouds:
        return KeyedClouds(self._provider_keys, self.signals, self._own_keys.text)

    def _provider_keys(self) -> Mapping[str, ProviderKey]:
        """Read only when asked for: which providers there are, any function may know."""
        return self._provider_key_source()

    @cached_property
    def _provider_key_source(self) -> SecretsProviderKeys:
        return SecretsProviderKeys(self._clients, self._provider_keys_arn, self.clock)

    @property
    def aws_account(self) -> str:
        """The deployment's, which stands in every ARN."""
        return self._provider_keys_arn.split(":")[4]

    @property
    def _provider_keys_arn(self) -> str:
        return _needed(self._settings.provider_keys_secret_arn, "PROVIDER_KEYS_SECRET_ARN")

    @cached_property
    def installer(self) -> Installer:
        # It takes a third of a second to load, and only machines that are reached over SSH need it.
        module = import_module("podferry.adapters.ssh.installer")
        installer: Installer = module.SshInstaller()
        return installer

    @property
    def key_vault(self) -> KeyVault:
        return self._own_keys

    @cached_property
    def _own_keys(self) -> SecretsKeyVault:
        return SecretsKeyVault(self._clients, self.deployment_id)

    @cached_property
    def secret_vault(self) -> SecretVault:
        return SecretsKeyVault(self._clients, self.deployment_id, Shelf.SECRETS)

    @cached_property
    def registries(self) -> ImageRegistries:
        return HttpRegistries(self.clock, parse_addresses(self._settings.image_registries))

    @cached_property
    def schedules(self) -> Schedules:
        return EventBridgeSchedules(
            self._clients, _needed(self._settings.reconciler_rule_name, "RECONCILER_RULE_NAME")
        )

    @cached_property
    def operator_key(self) -> OperatorKey:
        arn = _needed(self._settings.operator_key_secret_arn, "OPERATOR_KEY_SECRET_ARN")
        return SecretsOperatorKey(self._clients, arn, self.clock)

    @property
    def api_url(self) -> str:
        return _needed(self._settings.api_url, "API_URL").rstrip("/")

    @cached_property
    def boot_script(self) -> str:
        return files("podferry").joinpath("data/bootstrap.sh").read_text(encoding="utf-8")
