"""A write to a table that was answered survives SIGKILL, as on AWS.

MiniStack keeps tables in memory and the saver takes snapshots of them from time to time. Between
two snapshots every request that changes items appends what became of these items to a log, as one
record and before it is answered; the next start applies the log to the last snapshot. A record
holds whole items, so that applying it twice, or to a snapshot that is newer, changes nothing.

Stream records and the tokens of transactions are forgotten by a restart, as they always are.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ministack import app as ministack_app
from ministack.services import dynamodb

from local.aws.segmented_log import SegmentedLog
from local.aws.settings import Settings
from local.aws.shims import guard
from local.aws.shims.saver import Changes
from local.aws.shims.state_files import StateFiles

SERVICE = "dynamodb"
REQUESTS = (
    "_put_item",
    "_update_item",
    "_delete_item",
    "_batch_write_item",
    "_transact_write_items",
    "_execute_statement",
    "_batch_execute_statement",
    "_execute_transaction",
)
CHANGES = ("_set_item", "_remove_item")

Table = dict[str, Any]
Record = list[dict[str, Any]]


class Key(NamedTuple):
    """Where an item is. A table that is made again under the same name has another id."""

    table: str
    table_id: str
    pk: str
    sk: str


class ItemJournal:
    """Collects the items that a request touches and writes them as one record at its end."""

    def __init__(self, log: SegmentedLog, note_change: Callable[[], None]) -> None:
        # Requests come from the event loop and from the threads of executions. One at a time: a
        # record may not hold the half of another request, and the order of records must be that
        # of the changes.
        self._lock = threading.RLock()
        self._log = log
        self._note_change = note_change
        self._depth = 0
        self._touched: dict[Key, Table] = {}
        self._covered = 0

    @contextmanager
    def request(self) -> Iterator[None]:
        """Everything inside is one record, also if it is a request within a request."""
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._touched:
                    self._write()

    def touch(self, table: Table, pk: str, sk: str) -> None:
        """Notes an item that has changed or may have; the record takes it as it is at the end."""
        self._touched[Key(table["TableArn"], table["TableId"], pk, sk)] = table

    def snapshot(self, collect: Callable[[], Any]) -> Any:
        """Takes a snapshot that holds whole requests, and remembers which records it covers."""
        with self._lock:
            self._covered = self._log.cut()
            return collect()

    def drop_covered(self) -> None:
        """The last snapshot is on disk: it replaces the records."""
        self._log.drop(self._covered)

    def _write(self) -> None:
        # If this fails, the request is not acknowledged, but its changes stay in memory and later
        # requests build on them: they stay touched, and go into the next record as well.
        self._log.append(
            [
                {**key._asdict(), "item": table["items"].get(key.pk, {}).get(key.sk)}
                for key, table in self._touched.items()
            ]
        )
        self._touched.clear()
        self._note_change()


def apply(settings: Settings, files: StateFiles, changes: Changes) -> None:
    """Reads the log of the last run, to be applied when the tables are loaded; starts a new one.

    Raises:
        LocalAWSError: the log is damaged.
    """
    log = SegmentedLog(settings.data.journal)
    _replay_when_loaded(list(log.read()), changes)
    journal = ItemJournal(log, lambda: changes.note(SERVICE))
    for name in CHANGES:
        guard.replace(dynamodb, name, _touching(guard.take(dynamodb, name), journal))
    for name in REQUESTS:
        guard.replace(dynamodb, name, _recorded(guard.take(dynamodb, name), journal))
    get_state = guard.take(dynamodb, "get_state")
    guard.replace(dynamodb, "get_state", lambda: journal.snapshot(get_state))
    files.when_written(SERVICE, journal.drop_covered)
    changes.take_time(SERVICE)


def _recorded(handler: Any, journal: ItemJournal) -> Any:
    def handle(*args: Any, **kwargs: Any) -> Any:
        with journal.request():
            return handler(*args, **kwargs)

    return handle


def _touching(change: Any, journal: ItemJournal) -> Any:
    def apply_change(table: Table, pk: str, sk: str, *item: Any) -> Any:
        # Items that expire change outside of requests: each is a request of its own.
        with journal.request():
            journal.touch(table, pk, sk)
            return change(table, pk, sk, *item)

    return apply_change


def _replay_when_loaded(records: list[Record], changes: Changes) -> None:
    load_all = guard.take(ministack_app, "_load_persisted_state")
    put, remove = (guard.take(dynamodb, name) for name in CHANGES)
    tables = guard.take(dynamodb, "_tables")

    def load() -> None:
        load_all()
        known = {(table["TableArn"], table["TableId"]): table for table in tables.all_values()}
        for item in itertools.chain.from_iterable(records):
            # No table: it was deleted, or its stack never became complete and is made again.
            if table := known.get((item["table"], item["table_id"])):
                _restore(item, table, put, remove)
        if records:
            changes.note(SERVICE)
            records.clear()

    guard.replace(ministack_app, "_load_persisted_state", load)


def _restore(item: dict[str, Any], table: Table, put: Any, remove: Any) -> None:
    if item["item"] is None:
        remove(table, item["pk"], item["sk"])
    else:
        put(table, item["pk"], item["sk"], item["item"])
