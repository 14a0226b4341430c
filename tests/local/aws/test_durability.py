"""What was acknowledged is there after SIGKILL at any moment, and nothing else in halves."""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.aws.client import make_client

from .conftest import EmbeddedAWS, start

ROUNDS = 4
STATED = ("stated 0", "stated 1")
HAMMERED_SECONDS = (0.2, 0.9)
# A retry would hide which attempt was acknowledged.
ONCE = Config(retries={"total_max_attempts": 1}, read_timeout=10)


def _client(server: EmbeddedAWS, service: str = "dynamodb") -> Any:
    return make_client(service, server.endpoint, ONCE)


def _row(name: str, n: int | None = None) -> dict[str, Any]:
    return {"pk": {"S": name}} | ({} if n is None else {"n": {"N": str(n)}})


def _create_table(dynamodb: Any, name: str) -> str:
    made = dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return str(made["TableDescription"]["TableArn"])


def _number(dynamodb: Any, name: str) -> int:
    row = dynamodb.get_item(TableName="rows", Key=_row(name)).get("Item")
    return int(row["n"]["N"]) if row else 0


@dataclass
class Writer:
    """Writes rising numbers until the server is gone; knows what was acknowledged."""

    write: Callable[[Any, int], None]
    rows: tuple[str, ...]
    tried: int = 0
    acknowledged: int = 0

    def run(self, dynamodb: Any) -> None:
        try:
            while True:
                self.tried += 1
                self.write(dynamodb, self.tried)
                self.acknowledged = self.tried
        except BotoCoreError:
            # Killed; the last attempt may or may not have been carried out.
            return

    def check(self, dynamodb: Any) -> None:
        found = [_number(dynamodb, row) for row in self.rows]

        assert len(set(found)) == 1, f"half of a write: {dict(zip(self.rows, found, strict=True))}"
        assert self.acknowledged <= found[0] <= self.tried
        self.acknowledged = found[0]


def _put(dynamodb: Any, n: int) -> None:
    dynamodb.put_item(TableName="rows", Item=_row("put", n))


def _update(dynamodb: Any, n: int) -> None:
    dynamodb.update_item(
        TableName="rows",
        Key=_row("updated"),
        UpdateExpression="SET n = :n",
        ExpressionAttributeValues={":n": {"N": str(n)}},
    )


def _transact(dynamodb: Any, n: int) -> None:
    parts = [{"TableName": "rows", "Item": _row(f"part {part}", n)} for part in range(5)]
    dynamodb.transact_write_items(TransactItems=[{"Put": part} for part in parts])


def _batch(dynamodb: Any, n: int) -> None:
    item = _row("batched", n) | {"filler": {"S": "x" * 20_000}}
    dynamodb.batch_write_item(RequestItems={"rows": [{"PutRequest": {"Item": item}}]})


def _state(dynamodb: Any, n: int) -> None:
    statements = [
        {"Statement": f"""UPDATE "rows" SET n = {n} WHERE pk = '{row}'"""} for row in STATED
    ]
    dynamodb.execute_transaction(TransactStatements=statements)


@dataclass
class Hammer:
    """All writers at once, while snapshots are taken over and over."""

    arn: str
    writers: tuple[Writer, ...] = field(
        default_factory=lambda: (
            Writer(_put, ("put",)),
            Writer(_update, ("updated",)),
            Writer(_transact, tuple(f"part {part}" for part in range(5))),
            Writer(_batch, ("batched",)),
            Writer(_state, STATED),
        )
    )

    @property
    def rows(self) -> list[str]:
        return [row for writer in self.writers for row in writer.rows]

    def snapshot(self, dynamodb: Any) -> None:
        try:
            while True:
                tags = [{"Key": "at", "Value": str(time.monotonic())}]
                dynamodb.tag_resource(ResourceArn=self.arn, Tags=tags)
        except BotoCoreError:
            return

    @contextmanager
    def at_work(self, dynamodb: Any) -> Iterator[None]:
        work = [*(writer.run for writer in self.writers), self.snapshot]
        threads = [threading.Thread(target=run, args=(dynamodb,)) for run in work]
        for thread in threads:
            thread.start()
        yield
        for thread in threads:
            thread.join(timeout=20)


def test_acknowledged_writes_survive_sigkill_at_any_moment(
    data: Path, running: list[EmbeddedAWS]
) -> None:
    server = start(data)
    running.append(server)
    # The port stays, so one client is enough.
    dynamodb = _client(server)
    hammer = Hammer(_create_table(dynamodb, "rows"))
    for row in STATED:
        dynamodb.put_item(TableName="rows", Item=_row(row, 0))
    for _ in range(ROUNDS):
        with hammer.at_work(dynamodb):
            time.sleep(random.uniform(*HAMMERED_SECONDS))
            server.server.kill()
        server = start(data)
        running.append(server)
        for writer in hammer.writers:
            writer.check(dynamodb)

    assert all(writer.acknowledged > ROUNDS for writer in hammer.writers)
    assert dynamodb.scan(TableName="rows", Select="COUNT")["Count"] == len(hammer.rows)


@dataclass
class Restarted:
    """A server that was killed right after its last answer, and started again."""

    server: EmbeddedAWS
    old_records: list[Path]


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    data = tmp_path_factory.mktemp("durability") / "data"
    server = start(data)
    kept = _renew_a_table(_client(server), data)
    _write_items(_client(server))
    _switch_rule_and_secret(_client(server, "events"), _client(server, "secretsmanager"))
    server.server.kill()
    # As if it had been killed between a snapshot and the end of the records that it replaces.
    shutil.copytree(kept, data / "journal", dirs_exist_ok=True)
    again = start(data)
    yield Restarted(again, list(kept.iterdir()))
    again.stop()


def _renew_a_table(dynamodb: Any, data: Path) -> Path:
    _create_table(dynamodb, "renewed")
    dynamodb.put_item(TableName="renewed", Item=_row("old", 1))
    kept = shutil.copytree(data / "journal", data.with_name("kept"))
    dynamodb.delete_table(TableName="renewed")
    _create_table(dynamodb, "renewed")
    return kept


def _write_items(dynamodb: Any) -> None:
    _create_table(dynamodb, "rows")
    dynamodb.put_item(TableName="rows", Item=_row("deleted", 1))
    dynamodb.put_item(TableName="rows", Item=_row("kept", 1))
    dynamodb.delete_item(TableName="rows", Key=_row("deleted"))
    refused = {"TableName": "rows", "ConditionExpression": "attribute_not_exists(pk)"}
    with pytest.raises(ClientError, match="TransactionCanceled"):
        dynamodb.transact_write_items(
            TransactItems=[
                {"Put": {"TableName": "rows", "Item": _row("half", 1)}},
                {"Put": refused | {"Item": _row("kept", 2)}},
            ]
        )


def _switch_rule_and_secret(events: Any, secrets: Any) -> None:
    secrets.create_secret(Name="word", SecretString="first")
    events.put_rule(Name="tick", ScheduleExpression="rate(1 minute)", State="DISABLED")
    secrets.put_secret_value(SecretId="word", SecretString="second")
    events.enable_rule(Name="tick")


def test_deleted_item_and_refused_transaction_stay_away_after_sigkill(restarted: Restarted) -> None:
    dynamodb = _client(restarted.server)

    assert [_number(dynamodb, row) for row in ("deleted", "kept", "half")] == [0, 1, 0]


def test_records_of_a_deleted_table_do_not_come_back_in_its_namesake(restarted: Restarted) -> None:
    dynamodb = _client(restarted.server)

    assert b'"old"' in b"".join(path.read_bytes() for path in restarted.old_records)
    assert dynamodb.scan(TableName="renewed")["Items"] == []


def test_rule_and_secret_are_on_disk_when_they_are_answered(restarted: Restarted) -> None:
    rule = _client(restarted.server, "events").describe_rule(Name="tick")
    secret = _client(restarted.server, "secretsmanager").get_secret_value(SecretId="word")

    assert (rule["State"], secret["SecretString"]) == ("ENABLED", "second")
