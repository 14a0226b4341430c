"""The garbage collector on a table and buckets as AWS has them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from podferry.adapters.aws.objects import S3SnapshotObjects
from podferry.adapters.dynamo.store import DynamoStore
from podferry.adapters.memory.surroundings import ManualClock, MemorySignals, SeededRandomness
from podferry.domain.account import Account
from podferry.domain.snapshot import Snapshot, SnapshotKind, SnapshotState, StoredObject, object_key
from podferry.domain.volume import Volume
from podferry.ports.store import Create
from podferry.services.garbage.bury import BuryDead
from podferry.services.garbage.collect import CollectGarbage
from podferry.services.garbage.forget import ForgetRows
from podferry.services.garbage.recharge import MoveCharges
from podferry.services.garbage.sweep import SweepObjects
from podferry.services.garbage.thin import ThinOut
from podferry.services.garbage.trash import EmptyTrash
from podferry.services.records import Records
from podferry.services.saves.thin import ThinSaves
from podferry.services.verification import VerifySnapshot
from tests.contract.embedded import EmbeddedAws, make_table

KIND = SnapshotKind.VOLUME
ACCOUNT = "acct_01k0000000000000000000000a"
OLD, GIVEN_UP, HEAD = (f"snap_01k0000000000000000000000{letter}" for letter in "abc")
KEPT, LEFT = b"a pack that the head needs", b"a pack that nothing needs"


class Deployment:
    """A volume with an expired save, an abandoned capture and a head that needs a pack of old."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self.clock = ManualClock(datetime.now(UTC))
        self.store = DynamoStore(aws.clients, make_table(aws.clients.dynamodb))
        buckets = {kind: aws.make_bucket() for kind in SnapshotKind}
        self.bucket, self.s3 = buckets[KIND], aws.raw("s3")
        self.objects = S3SnapshotObjects(aws.clients, buckets)
        self.signals = MemorySignals()
        self.records = Records(self.store, self.clock, SeededRandomness())

    def put(self, snapshot_id: str, name: str, body: bytes) -> None:
        key = object_key(ACCOUNT, snapshot_id, name)
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, ChecksumAlgorithm="SHA256")

    def fill(self) -> None:
        now = self.clock.now()
        account = Account(id=ACCOUNT, account_id=ACCOUNT, created_at=now, name="a", chunk_key="k")
        volume = Volume(id="vol_1", account_id=ACCOUNT, created_at=now, name="v", head=HEAD)
        old = replace(self._stored(OLD, None, [KEPT, LEFT]), expired_at=now)
        given_up = replace(self._stored(GIVEN_UP, OLD, [LEFT]), state=SnapshotState.ABANDONED)
        head = self._stored(HEAD, OLD, [KEPT])
        self.store.commit(*map(Create, (account, volume, old, given_up, head)))

    def _stored(self, snapshot_id: str, parent_id: str | None, packs: list[bytes]) -> Snapshot:
        for body in packs:
            self.put(OLD if body == KEPT else snapshot_id, f"packs/{sha256(body)}", body)
        entries = [
            {"snapshot_id": OLD, "sha256": sha256(body), "size": len(body)} for body in packs
        ]
        counts = {"entries": 0, "files": 0, "bytes": 0}
        root = {"format": 1, "kind": KIND, "snapshot_id": snapshot_id, "parent": parent_id}
        body = json.dumps({**root, "pages": [], "packs": entries, "counts": counts}).encode()
        self.put(snapshot_id, "root", body)
        return Snapshot(
            id=snapshot_id,
            account_id=ACCOUNT,
            created_at=self.clock.now(),
            kind=KIND,
            subject_id="vol_1",
            pod_id="pod_1",
            machine_id="mach_1",
            epoch=1,
            operation_id=None,
            parent_id=parent_id,
            state=SnapshotState.COMMITTED,
            root=StoredObject(name="root", size=len(body), sha256=sha256(body)),
        )

    def keys(self) -> set[str]:
        return {one.key for one in self.objects.listed(KIND, "", None, 1000)}

    def collect(self) -> None:
        records = self.records
        sweep = SweepObjects(records, self.objects, VerifySnapshot(records, self.objects))
        thin = ThinOut(records, ThinSaves(records), EmptyTrash(records))
        bury, charges, forget = BuryDead(records), MoveCharges(records), ForgetRows(records)
        collector = CollectGarbage(records, thin, bury, sweep, charges, forget, self.signals)
        outcome = collector.run(lambda: True)
        assert outcome["is_finished"]


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_what_nothing_needs_is_deleted_and_the_head_stays_whole(embedded: EmbeddedAws) -> None:
    deployment = Deployment(embedded)
    deployment.fill()
    assert len(deployment.keys()) == 6
    for _ in range(6):
        deployment.clock.advance(timedelta(days=1))
        deployment.collect()
    assert deployment.keys() == {
        object_key(ACCOUNT, HEAD, "root"),
        object_key(ACCOUNT, OLD, f"packs/{sha256(KEPT)}"),
    }
    assert deployment.store.get(Snapshot, OLD).state == SnapshotState.DELETED
    assert deployment.store.find(Snapshot, GIVEN_UP) is None
    assert deployment.signals.counts["GarbageObjectsFreed"] == 4
    assert deployment.signals.counts["GarbageHalted"] == 0
