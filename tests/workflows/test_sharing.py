"""Sharing: nothing leaves unseen, what leaves is the recipient's own, and nothing else is."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sharing_scenes import CLEAN, ENVIRONMENT, Owned, accept, decide, files_below, restored

from podferry.domain.errors import (
    InvalidRequestError,
    NotFoundError,
    WrongStateError,
)
from podferry.domain.operation import Operation, OperationState
from podferry.domain.share import Decision, ShareState
from podferry.domain.snapshot import SnapshotState
from podferry.domain.volume import Environment
from podferry.ports.store import Update
from podferry.services.sharing import run
from podferry.services.sharing.ask import NewShare


@pytest.fixture
def clean(world, tmp_path):
    return Owned.make(world, tmp_path, CLEAN)


def test_promise_12_a_recipient_gets_the_version_and_can_restore_it(
    world, clean, stranger, tmp_path
):
    share, token = clean.share()
    assert share.state == ShareState.SHARED
    operation = accept(world, stranger, share, token)
    assert operation.state == OperationState.SUCCEEDED, operation.error
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    assert files_below(copy) == files_below(clean.root)
    environment = world.store.get(Environment, operation.result["environment_id"])
    assert (environment.account_id, environment.image) == (stranger.id, "ubuntu:24.04")
    assert (environment.versions, environment.head) == (1, operation.result["snapshot_id"])
    assert share.receipt.files == operation.result["files"] == len(CLEAN)


def test_promise_12_nothing_that_is_excluded_can_be_read_by_the_recipient(
    world, stranger, tmp_path
):
    """Small files share blocks and packs: the secret lies in the same pack as what travels."""
    secret = b"correct horse battery staple " * 40
    files = {**CLEAN, "root/.ssh/id_ed25519": secret, "root/.netrc": secret[:600]}
    owned = Owned.make(world, tmp_path, files)
    share, token = owned.share()
    operation = accept(world, stranger, share, token)
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    assert files_below(copy).keys() == CLEAN.keys()
    theirs = [key for key in world.objects.keys(ENVIRONMENT) if key.startswith(stranger.id)]
    tree = world.app.run_share.tree(
        replace(
            owned.fresh(share),
            account_id=stranger.id,
            environment_id=operation.result["environment_id"],
            snapshot_id=operation.result["snapshot_id"],
        )
    )
    contents = b"".join(
        bytes(page.chunk(number))
        for index in range(len(tree.root.pages))
        for page in [tree.page(index)]
        for number in range(len(page.table.ids))
    )
    assert secret[:29] not in contents
    own = set(world.objects.keys(ENVIRONMENT)) - set(theirs)
    assert not {key.partition("packs/")[2] for key in theirs if "packs" in key} & {
        key.partition("packs/")[2] for key in own
    }


def test_promise_12_chunk_ids_under_the_owners_key_stay_behind(world, clean, stranger):
    share, token = clean.share()
    operation = accept(world, stranger, share, token)
    ids = []
    for account, snapshot in (
        (clean.account, clean.version.snapshot_id),
        (stranger, operation.result["snapshot_id"]),
    ):
        row = replace(
            clean.fresh(share),
            account_id=account.id,
            snapshot_id=snapshot,
            environment_id=world.snapshot(snapshot).subject_id,
        )
        tree = world.app.run_share.tree(row)
        ids.append({i for n in range(len(tree.root.pages)) for i in tree.page(n).table.ids})
    assert ids[0]
    assert not ids[0] & ids[1]


def test_promise_12_the_owners_own_pods_get_everything_back(world, tmp_path):
    files = {**CLEAN, "root/.ssh/id_rsa": b"key", "root/.bash_history": b"ls\n"}
    owned = Owned.make(world, tmp_path, files)
    owned.share()
    copy = restored(world, owned.account, owned.version.snapshot_id, tmp_path / "again")
    assert files_below(copy) == files_below(owned.root)


def test_a_finding_blocks_the_share_until_it_is_decided(world, stranger, tmp_path):
    files = {**CLEAN, "root/a.py": b"x = 1\nAPI_TOKEN = 'k3j4h5k3j4h5kj3h4'\n"}
    owned = Owned.make(world, tmp_path, files)
    share, token = owned.share()
    assert (share.state, share.undecided) == (ShareState.NEEDS_DECISION, 1)
    page = world.app.shares.findings(owned.account.id, share.id, limit=10, cursor=None)
    assert [(hit.line, hit.rule) for hit in page.items[0].hits] == [(2, "assignment")]
    assert "k3j4h5" not in repr(page.items)
    with pytest.raises(WrongStateError, match="needs_decision"):
        accept(world, stranger, share, token)
    share = decide(owned, share, "/root/a.py", Decision.EXCLUDE)
    assert share.state == ShareState.SHARED
    assert share.receipt.excluded == {"excluded by its owner": 1}
    assert share.receipt.files == len(CLEAN)
    operation = accept(world, stranger, share, token)
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    assert files_below(copy).keys() == CLEAN.keys()


def test_what_is_accepted_travels_and_is_on_the_receipt(world, stranger, tmp_path):
    files = {**CLEAN, "root/x/a.py": b"token = 'k3j4h5k3j4h5kj3h4'\n"}
    owned = Owned.make(world, tmp_path, files)
    share, token = owned.share()
    share = decide(owned, share, "/root/x/**", Decision.ACCEPT)
    assert (share.receipt.accepted, share.receipt.accepted_files) == (("/root/x/a.py",), 1)
    operation = accept(world, stranger, share, token)
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    assert "root/x/a.py" in files_below(copy)


def test_a_decision_on_what_is_not_found_is_refused(world, tmp_path):
    owned = Owned.make(world, tmp_path, {**CLEAN, "root/a": b"password: hunter2hunter2\n"})
    share, _ = owned.share()
    with pytest.raises(InvalidRequestError):
        decide(owned, share, "/root/b", Decision.ACCEPT)
    assert owned.fresh(share).undecided == 1


def test_a_big_version_is_gone_through_in_several_runs(world, stranger, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RUN_PAGES", 1)
    files = {f"opt/data/{n % 40}/file{n}": f"{n}\n".encode() * 3 for n in range(6000)}
    files["root/late.sh"] = b"export DB_PASSWORD='s3cr3t-and-long'\n"
    owned = Owned.make(world, tmp_path, files)
    share, token = owned.share()
    assert world.engine.executions[share.operation_id].visited.count("RunShare") > 1
    assert owned.findings(share) == {"/root/late.sh": {"assignment"}}
    share = decide(owned, share, "/root/late.sh", Decision.EXCLUDE)
    operation = accept(world, stranger, share, token)
    assert world.visited(operation).count("RunShare") >= 3
    copy = restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")
    assert files_below(copy).keys() == files.keys() - {"root/late.sh"}


@pytest.mark.parametrize("repeats", [False, True])
def test_every_run_may_happen_twice(world, clean, stranger, tmp_path, repeats):
    world.repeats = repeats
    share, token = clean.share()
    operation = accept(world, stranger, share, token)
    assert operation.state == OperationState.SUCCEEDED
    restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")


def test_an_execution_that_was_killed_is_started_again(world, clean, stranger):
    share, token = clean.share()
    operation = world.app.shares.accept(stranger.id, share.id, token, "theirs")
    world.engine.kill_all()
    world.settle()
    assert world.operation(operation).state == OperationState.SUCCEEDED


# Who may


def test_a_named_account_needs_no_token_and_others_see_nothing(world, clean, stranger):
    other, _, _ = world.app.accounts.create("other")
    share, token = clean.share(accounts=(stranger.id,), with_link=False)
    assert token is None
    assert accept(world, stranger, share, None).state == OperationState.SUCCEEDED
    for account, told in ((other, None), (other, "pfs_wrong")):
        with pytest.raises(NotFoundError):
            accept(world, account, share, told)
    with pytest.raises(NotFoundError):
        world.app.shares.get(stranger.id, share.id)
    with pytest.raises(NotFoundError):
        world.app.shares.findings(stranger.id, share.id, limit=1, cursor=None)


def test_a_link_opens_with_its_token_only_and_is_stored_as_a_hash(world, clean, stranger):
    share, token = clean.share()
    assert token not in repr(share)
    for wrong in (None, token[:-1], share.token_sha256):
        with pytest.raises(NotFoundError):
            accept(world, stranger, share, wrong)
    assert accept(world, stranger, share, token).state == OperationState.SUCCEEDED
    assert clean.fresh(share).accepts == 1


def test_a_revoked_share_takes_no_accepts_and_leaves_what_was_accepted(
    world, clean, stranger, tmp_path
):
    share, token = clean.share()
    operation = accept(world, stranger, share, token)
    world.app.shares.revoke(clean.account.id, share.id)
    world.app.shares.revoke(clean.account.id, share.id)
    with pytest.raises(WrongStateError, match="revoked"):
        accept(world, stranger, share, token)
    world.app.change_environment.delete(clean.account.id, clean.environment.id)
    for key in world.objects.keys(ENVIRONMENT):
        if key.startswith(clean.account.id):
            world.objects.remove(ENVIRONMENT, key)
    restored(world, stranger, operation.result["snapshot_id"], tmp_path / "theirs")


def test_a_share_that_is_revoked_while_it_is_copied_leaves_no_environment(world, clean, stranger):
    share, token = clean.share()
    operation = world.app.shares.accept(stranger.id, share.id, token, "theirs")
    world.app.shares.revoke(clean.account.id, share.id)
    world.run()
    assert world.operation(operation).state == OperationState.CANCELLED
    page = world.app.browse.environments(stranger.id, limit=10, cursor=None)
    assert not page.items
    target = world.snapshot(operation.environment_snapshot_id)
    assert target.state == SnapshotState.ABANDONED


def test_an_expired_share_takes_no_accepts(world, clean, stranger):
    share, token = clean.share(expires_at=world.clock.now() + timedelta(days=1))
    world.clock.advance(timedelta(days=1))
    with pytest.raises(WrongStateError, match="expired"):
        accept(world, stranger, share, token)


def test_what_the_owner_deleted_cannot_be_accepted(world, clean, stranger):
    share, token = clean.share()
    world.app.change_environment.delete(clean.account.id, clean.environment.id)
    with pytest.raises(WrongStateError, match="deleted"):
        accept(world, stranger, share, token)


def test_only_versions_of_the_own_account_can_be_shared(world, clean, stranger):
    with pytest.raises(NotFoundError):
        world.app.shares.share(stranger.id, clean.environment.id, 1, NewShare(with_link=True))
    for new in (NewShare(), NewShare(accounts=("acct_unknown",))):
        with pytest.raises(InvalidRequestError):
            world.app.shares.share(clean.account.id, clean.environment.id, 1, new)


# Tricks


def test_promise_12_a_share_row_that_names_anothers_snapshot_reads_nothing(
    world, clean, stranger, tmp_path
):
    """Keys are made of the owner's account: another account's objects are out of reach."""
    theirs = Owned.make(world, tmp_path / "s", {"root/plan": b"secret plan"}, stranger)
    share, _ = clean.share()
    forged = replace(share, snapshot_id=theirs.version.snapshot_id, account_id=clean.account.id)
    tree_of = world.app.run_share.tree
    snapshot = world.snapshot(theirs.version.snapshot_id)
    world.store.commit(Update(replace(snapshot, account_id=clean.account.id)))
    with pytest.raises(Exception, match="is not in the"):
        tree_of(forged)


def test_promise_12_a_copy_that_names_packs_of_others_is_not_committed(
    world, clean, stranger, monkeypatch
):
    share, token = clean.share()
    written = run.write_root

    def naming_the_owners(store, source, receipt):
        stored, root = written(store, source, receipt)
        root.packs[0] = replace(root.packs[0], snapshot_id=clean.version.snapshot_id)
        body = root.encode()
        key = f"{store.account_id}/{store.snapshot_id}/root"
        world.objects.put(ENVIRONMENT, key, body)
        facts = world.objects.facts(ENVIRONMENT, key)
        return replace(stored, size=facts.size, sha256=facts.sha256), root

    monkeypatch.setattr(run, "write_root", naming_the_owners)
    operation = accept(world, stranger, share, token)
    assert operation.state == OperationState.FAILED
    assert operation.error["code"] == "snapshot_corrupt"


def test_a_copy_that_is_not_what_was_sealed_is_not_committed(world, clean, stranger):
    share, token = clean.share()
    forged = replace(share.receipt, manifest_sha256="0" * 64)
    world.store.commit(Update(replace(share, receipt=forged)))
    operation = accept(world, stranger, share, token)
    assert operation.error["code"] == "snapshot_corrupt"
    assert "receipt" in operation.error["detail"]


def test_a_pack_that_rots_fails_the_scan_and_the_share(world, clean):
    for key in world.objects.keys(ENVIRONMENT):
        if "/packs/" in key:
            body = bytearray(world.objects.read(ENVIRONMENT, key))
            body[10] ^= 255
            world.objects.put(ENVIRONMENT, key, bytes(body))
    share, _ = clean.share()
    assert share.state == ShareState.FAILED
    error = world.store.get(Operation, share.operation_id).error
    assert error["code"] == "snapshot_corrupt"


def test_too_many_findings_fail_the_share_with_a_way_out(world, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MOST_FINDINGS", 2)
    files = {f"root/{n}.py": b"password = 'abcdefgh1'\n" for n in range(3)}
    owned = Owned.make(world, tmp_path, files)
    share, _ = owned.share()
    assert share.state == ShareState.FAILED
