"""Accounts (the operator's), API keys and SSH keys (the account's own)."""

from aws_lambda_powertools.event_handler import Response

from podferry.domain.account import USER_SCOPES, Scope
from podferry.http.answers import GONE, REPLAYED, found, gone, made
from podferry.http.call import CallNow
from podferry.http.models.account import (
    AccountView,
    KeyView,
    NewAccountBody,
    NewAccountView,
    NewKeyBody,
    NewKeyView,
    NewSshKeyBody,
    SshKeyView,
    StorageView,
)
from podferry.http.models.page import PageView
from podferry.http.params import DEFAULT_LIMIT, Cursor, KeyId, Limit, SshKeyId
from podferry.http.routing import Answer, ApiRouter

routes = ApiRouter("accounts")


@routes.operation(
    "POST",
    "/v1/accounts",
    needs=Scope.ADMIN,
    answers={201: Answer(NewAccountView, "The account and its first key.", REPLAYED)},
)
def create_account(call: CallNow, body: NewAccountBody) -> Response[NewAccountView]:
    """Make an account (operator only)."""
    account, key, token = call.use.accounts.create(body.name)
    return made(NewAccountView(account=AccountView.of(account), key=KeyView.of(key), token=token))


@routes.operation(
    "GET",
    "/v1/accounts",
    needs=Scope.ADMIN,
    answers={200: Answer(PageView[AccountView], "Newest first.")},
)
def list_accounts(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[AccountView]]:
    """List all accounts (operator only)."""
    page = call.use.accounts.list(limit=limit, cursor=cursor)
    rows = tuple(AccountView.of(account) for account in page.items)
    return found(PageView[AccountView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "GET",
    "/v1/account",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(AccountView, "The account of the key that asks.", ("ETag",))},
)
def get_account(call: CallNow) -> Response[AccountView]:
    """See whose key this is."""
    account = call.use.accounts.get(call.account_id)
    return found(AccountView.of(account), account.revision)


@routes.operation(
    "GET",
    "/v1/account/storage",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(StorageView, "What the account has in the store.")},
)
def get_storage(call: CallNow) -> Response[StorageView]:
    """See how much of the store is the account's; volumes and environments show their parts."""
    return found(StorageView.of(call.use.read_storage.of_account(call.account_id)))


@routes.operation(
    "POST",
    "/v1/keys",
    needs=Scope.ACCOUNT_WRITE,
    answers={201: Answer(NewKeyView, "The key, shown once.", REPLAYED)},
)
def create_key(call: CallNow, body: NewKeyBody) -> Response[NewKeyView]:
    """Make an API key; it cannot be given scopes that the asking key lacks."""
    granted_by = call.principal.scopes & USER_SCOPES
    key, token = call.use.keys.create(call.account_id, body.name, body.scopes, granted_by)
    return made(NewKeyView(key=KeyView.of(key), token=token))


@routes.operation(
    "GET",
    "/v1/keys",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(PageView[KeyView], "Newest first, revoked ones too.")},
)
def list_keys(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[KeyView]]:
    """List the account's API keys."""
    page = call.use.keys.list(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(KeyView.of(key) for key in page.items)
    return found(PageView[KeyView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "DELETE",
    "/v1/keys/<key_id>",
    needs=Scope.ACCOUNT_WRITE,
    answers=GONE,
    refusals=(409,),
)
def revoke_key(call: CallNow, key_id: KeyId) -> Response[None]:
    """Revoke an API key for good."""
    call.use.keys.revoke(call.account_id, key_id)
    return gone()


@routes.operation(
    "POST",
    "/v1/ssh-keys",
    needs=Scope.ACCOUNT_WRITE,
    answers={201: Answer(SshKeyView, "The key.", REPLAYED)},
)
def add_ssh_key(call: CallNow, body: NewSshKeyBody) -> Response[SshKeyView]:
    """Add a public key; pods that start from then on let it in."""
    return made(SshKeyView.of(call.use.ssh_keys.add(call.account_id, body.name, body.public_key)))


@routes.operation(
    "GET",
    "/v1/ssh-keys",
    needs=Scope.ACCOUNT_READ,
    answers={200: Answer(PageView[SshKeyView], "The keys, in no particular order.")},
)
def list_ssh_keys(
    call: CallNow, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response[PageView[SshKeyView]]:
    """List the account's SSH keys."""
    page = call.use.ssh_keys.list(call.account_id, limit=limit, cursor=cursor)
    rows = tuple(SshKeyView.of(key) for key in page.items)
    return found(PageView[SshKeyView](data=rows, next_cursor=page.cursor))


@routes.operation(
    "DELETE",
    "/v1/ssh-keys/<ssh_key_id>",
    needs=Scope.ACCOUNT_WRITE,
    answers=GONE,
    refusals=(409,),
)
def remove_ssh_key(call: CallNow, ssh_key_id: SshKeyId) -> Response[None]:
    """Remove an SSH key: no pod lets it in any more, but who is in stays in."""
    call.use.ssh_keys.remove(call.account_id, ssh_key_id)
    return gone()
