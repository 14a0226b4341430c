"""The use cases of accounts, their keys and secrets, and what they read."""

from functools import cached_property

from podferry.bootstrap.foundation import Foundation
from podferry.services.accounts import Accounts
from podferry.services.browse import Browse
from podferry.services.idempotency import Replies
from podferry.services.identify import Identify
from podferry.services.keys import Keys
from podferry.services.market import Market
from podferry.services.provider_keys import Deployment, ProviderKeys
from podferry.services.secrets import Secrets
from podferry.services.ssh_keys import SshKeys


class Users(Foundation):
    """Who asks, with what right, and what can be read or rented."""

    @cached_property
    def identify(self) -> Identify:
        return Identify(self.store, self.ports.operator_key, self.clock)

    @cached_property
    def replies(self) -> Replies:
        return Replies(self.store, self.clock)

    @cached_property
    def accounts(self) -> Accounts:
        return Accounts(self.store, self.clock, self.ports.randomness)

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.store, self.clock, self.ports.randomness)

    @cached_property
    def ssh_keys(self) -> SshKeys:
        return SshKeys(self.store, self.clock)

    @cached_property
    def provider_keys(self) -> ProviderKeys:
        ports = self.ports
        deployment = Deployment(id=ports.deployment_id, aws_account=lambda: ports.aws_account)
        return ProviderKeys(self.records, self.clouds, ports.key_vault, deployment)

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self.records, self.ports.secret_vault)

    @cached_property
    def browse(self) -> Browse:
        return Browse(self.store)

    @cached_property
    def market(self) -> Market:
        return Market(self.clouds, self.experiences, self.store, self.clock)
