"""Runs cdk-nag over the app; an exception is stated where the resource is made, with a reason."""

import cdk_nag
from aws_cdk import Acknowledgment, App, Validations
from constructs import IConstruct


def add_reviews(app: App) -> None:
    """Let synth fail on every finding that nobody acknowledged."""
    Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app), cdk_nag.ServerlessChecks(app))


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept one finding on one construct."""
    pack = rule.split("-", 1)[0]
    Validations.of(construct).acknowledge(Acknowledgment(id=f"{pack}::{rule}", reason=reason))


def acknowledge_wildcard(construct: IConstruct, resource: str, reason: str) -> None:
    """Accept one resource name with `*` in the policies of one role."""
    acknowledge(construct, f"AwsSolutions-IAM5[Resource::{resource}]", reason)
