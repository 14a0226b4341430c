"""What each function reads from its environment; the only place that knows the names."""

import os
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field


class Settings(BaseModel):
    """Names of the deployment's resources. A function sets those that its role may touch."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    table_name: str = Field(alias="TABLE_NAME")
    deployment_id: str = Field(alias="DEPLOYMENT_ID", pattern=r"^[0-9a-f]{8}$")
    environments_bucket: str | None = Field(None, alias="ENVIRONMENTS_BUCKET")
    volumes_bucket: str | None = Field(None, alias="VOLUMES_BUCKET")
    agent_bucket: str | None = Field(None, alias="AGENT_BUCKET")
    agent_bundle_source_bucket: str | None = Field(None, alias="AGENT_BUNDLE_SOURCE_BUCKET")
    agent_bundle_source_key: str | None = Field(None, alias="AGENT_BUNDLE_SOURCE_KEY")
    agent_bundle_sha256: str | None = Field(None, alias="AGENT_BUNDLE_SHA256")
    launch_workflow_arn: str | None = Field(None, alias="LAUNCH_WORKFLOW_ARN")
    stop_workflow_arn: str | None = Field(None, alias="STOP_WORKFLOW_ARN")
    move_workflow_arn: str | None = Field(None, alias="MOVE_WORKFLOW_ARN")
    proof_workflow_arn: str | None = Field(None, alias="PROOF_WORKFLOW_ARN")
    share_workflow_arn: str | None = Field(None, alias="SHARE_WORKFLOW_ARN")
    provider_keys_secret_arn: str | None = Field(None, alias="PROVIDER_KEYS_SECRET_ARN")
    operator_key_secret_arn: str | None = Field(None, alias="OPERATOR_KEY_SECRET_ARN")
    reconciler_rule_name: str | None = Field(None, alias="RECONCILER_RULE_NAME")
    image_registries: str | None = Field(None, alias="IMAGE_REGISTRIES")
    """Besides the public ones, `host=address,...`; `*` stands for all."""
    api_url: str | None = Field(None, alias="API_URL")


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """The settings from a process environment; empty values count as absent."""
    source = os.environ if environment is None else environment
    return Settings.model_validate({name: value for name, value in source.items() if value})
