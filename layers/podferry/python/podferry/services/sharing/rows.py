"""The rows that sharing reads and writes, each with its rule."""

import base64
import hmac

from podferry.domain.account import Account
from podferry.domain.errors import NotFoundError, WrongStateError
from podferry.domain.operation import Cause, Operation, OperationKind
from podferry.domain.share import Share
from podferry.domain.snapshot import Snapshot
from podferry.domain.volume import Environment
from podferry.services.identify import token_digest
from podferry.services.records import Records


def new_operation(records: Records, kind: OperationKind, account_id: str, pod_id: str) -> Operation:
    """One that is not stored yet."""
    return Operation(
        id=records.new_id(Operation),
        account_id=account_id,
        created_at=records.now(),
        pod_id=pod_id,
        kind=kind,
        cause=Cause.USER,
    )


def source_of(records: Records, share: Share) -> Snapshot:
    """What is shared, if its owner still has it.

    Raises:
        WrongStateError: the environment was deleted.
    """
    environment = records.store.get(Environment, share.environment_id)
    snapshot = records.store.find(Snapshot, share.snapshot_id)
    if environment.deleted_at is not None or snapshot is None or not snapshot.is_usable:
        raise WrongStateError(f"what share {share.id} shares was deleted by its owner")
    return snapshot


def shared_with(records: Records, account_id: str, share_id: str, token: str | None) -> Share:
    """The share, if this account may accept it, by name or by the secret of the link.

    Raises:
        NotFoundError: no such share, or not for this account: the two look the same.
    """
    share = records.store.find(Share, share_id)
    if share is None or not _may_accept(share, account_id, token):
        raise NotFoundError(f"no share {share_id} for this account; check the link's token")
    return share


def _may_accept(share: Share, account_id: str, token: str | None) -> bool:
    if account_id in (share.account_id, *share.accounts):
        return True
    digest = share.token_sha256
    if digest is None or token is None:
        return False
    return hmac.compare_digest(token_digest(token), digest)


def chunk_key(records: Records, account_id: str) -> bytes:
    """The key of the account's content hashes."""
    return base64.b64decode(records.store.get(Account, account_id).chunk_key)
