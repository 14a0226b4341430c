"""Environments that the real engine captured, in the store of a `World`, ready to be shared."""

import base64
import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from world import World

from podferry.domain.account import Account
from podferry.domain.operation import Operation
from podferry.domain.share import Decision, Share
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, StoredObject
from podferry.domain.version import Version, freeze
from podferry.domain.volume import Environment
from podferry.ports.store import Create
from podferry.services.environments.rows import changes_of
from podferry.services.sharing.ask import DecisionOn, NewShare
from podferry.services.sharing.tree import AccountObjects
from podferry_agent.snapshot import CaptureSpec, RestoreSpec, capture, restore, verify_tree
from podferry_agent.snapshot.model import Progress

CLEAN = {
    "opt/tool": b"#!/bin/sh\necho tool\n",
    "usr/lib/python3/site-packages/pkg/__init__.py": b"VERSION = '1'\n",
    "root/notes.txt": b"nothing of note\n",
    "opt/weights.bin": bytes(range(256)) * 8000,
}
ENVIRONMENT = SnapshotKind.ENVIRONMENT


def ignore(_: Progress) -> None:
    """Nobody looks at the progress."""


def key_of(account: Account) -> bytes:
    return base64.b64decode(account.chunk_key)


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@dataclass
class Owned:
    """An environment of an account, captured from a directory by the engine."""

    world: World
    account: Account
    directory: Path
    environment: Environment
    version: Version

    @classmethod
    def make(
        cls, world: World, directory: Path, files: dict[str, bytes], account: Account | None = None
    ) -> "Owned":
        records = world.app.records
        account = account or world.account
        environment = Environment(
            id=records.new_id(Environment),
            account_id=account.id,
            created_at=records.now(),
            name="mine",
            image="ubuntu:24.04",
        )
        snapshot = _captured(world, account, environment, write_tree(directory / "box", files))
        frozen = freeze(environment, snapshot, None, records.now())
        world.store.commit(
            Create(replace(frozen.environment, head=snapshot.id)),
            Create(frozen.snapshot),
            changes_of(frozen)[0],
        )
        return cls(world, account, directory, frozen.environment, frozen.version)

    @property
    def root(self) -> Path:
        return self.directory / "box"

    def share(self, **new: object) -> tuple[Share, str | None]:
        """Shared, and scanned as far as it goes by itself."""
        wanted = NewShare(**{"with_link": True, **new})  # type: ignore[arg-type]
        share, token = self.world.app.shares.share(
            self.account.id, self.environment.id, self.version.number, wanted
        )
        self.world.run()
        return self.fresh(share), token

    def fresh(self, share: Share) -> Share:
        return self.world.app.shares.get(self.account.id, share.id)

    def findings(self, share: Share) -> dict[str, set[str]]:
        """Rules by path."""
        page = self.world.app.shares.findings(self.account.id, share.id, limit=100, cursor=None)
        return {one.path: {hit.rule for hit in one.hits} for one in page.items}


def _captured(world: World, account: Account, environment: Environment, root: Path) -> Snapshot:
    records = world.app.records
    snapshot = Snapshot(
        id=records.new_id(Snapshot),
        account_id=account.id,
        created_at=records.now(),
        kind=ENVIRONMENT,
        subject_id=environment.id,
        pod_id="",
        machine_id="",
        epoch=0,
        operation_id=None,
        parent_id=None,
    )
    store = AccountObjects(world.objects, account.id, snapshot.id)
    spec = CaptureSpec(
        kind="environment",
        snapshot_id=snapshot.id,
        chunk_key=key_of(account),
        root=os.fsencode(root),
        state_dir=os.fsencode(root.parent / "state"),
    )
    outcome = capture(spec, store, ignore, threading.Event())
    return replace(
        snapshot,
        state=SnapshotState.COMMITTED,
        root=StoredObject(**vars(outcome.root)),
        summary=outcome.summary.as_dict(),
        committed_at=records.now(),
    )


def decide(owned: Owned, share: Share, path: str, decision: Decision) -> Share:
    share = owned.world.app.shares.decide(
        owned.account.id, share.id, [DecisionOn(path=path, decision=decision)]
    )
    owned.world.run()
    return owned.fresh(share)


def accept(world: World, account: Account, share: Share, token: str | None) -> Operation:
    operation = world.app.shares.accept(account.id, share.id, token, "theirs")
    world.run()
    return world.operation(operation)


def restored(world: World, account: Account, snapshot_id: str, into: Path) -> Path:
    """What the account can restore of the snapshot, reading nothing but its own objects."""
    into.mkdir()
    spec = RestoreSpec(
        kind="environment",
        snapshot_id=snapshot_id,
        chunk_key=key_of(account),
        root=os.fsencode(into),
        state_dir=os.fsencode(into.parent / f"{into.name}-state"),
    )
    store = AccountObjects(world.objects, account.id, snapshot_id)
    restore(spec, store, ignore, threading.Event())
    assert not verify_tree(spec, store)
    return into


def files_below(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
