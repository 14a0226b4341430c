"""What every `Store` promises of its lists."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, takewhile

import pytest

from podferry.domain.command import Command, CommandState
from podferry.domain.errors import InternalError, InvalidRequestError
from podferry.domain.machine import Machine, MachineState
from podferry.domain.pod import Pod, PodState
from podferry.ports.store import Create, Delete, Page, Store, Update
from tests.contract.entities import a_command, a_machine, a_pod


def every_page(store: Store, owner: str, *, limit: int, newest_first: bool) -> list[Page[Command]]:
    pages: list[Page[Command]] = []
    cursor = None
    while not pages or cursor is not None:
        page = store.list_owned(
            Command, owner, limit=limit, cursor=cursor, newest_first=newest_first
        )
        pages.append(page)
        cursor = page.cursor
    return pages


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 6, 7, 50])
def test_pages_hold_every_row_of_the_owner_once_and_in_order(
    store: Store, limit: int, newest_first: bool
) -> None:
    mine = [a_command(machine_id="mach_a") for _ in range(6)]
    others = [a_command(machine_id="mach_b"), a_command(machine_id="mach_aa")]
    store.commit(*map(Create, [*mine, *others]))

    pages = every_page(store, "mach_a", limit=limit, newest_first=newest_first)

    rows = [row for page in pages for row in page.items]
    assert rows == sorted(mine, key=lambda row: row.id, reverse=newest_first)
    assert [len(page.items) for page in pages] == _page_sizes(len(mine), limit)


def _page_sizes(total: int, limit: int) -> list[int]:
    """Full pages and a rest; no empty page at the end."""
    starts = takewhile(lambda start: start < total, count(0, limit))
    return [min(limit, total - start) for start in starts]


def test_a_list_without_rows_is_one_empty_page(store: Store) -> None:
    page = store.list_owned(Pod, "acct_nobody")

    assert list(page.items) == []
    assert page.cursor is None


def test_pages_may_be_longer_than_a_hundred_rows(store: Store) -> None:
    commands = [a_command(machine_id="mach_long") for _ in range(130)]
    store.commit(*map(Create, commands[:100]))
    store.commit(*map(Create, commands[100:]))

    page = store.list_owned(Command, "mach_long", limit=120, newest_first=False)
    rest = store.list_owned(Command, "mach_long", limit=120, cursor=page.cursor, newest_first=False)

    assert [*page.items, *rest.items] == commands
    assert len(page.items) == 120


def test_a_row_that_was_removed_does_not_break_the_cursor_on_it(store: Store) -> None:
    first, second, third = (a_command(machine_id="mach_c") for _ in range(3))
    store.commit(Create(first), Create(second), Create(third))
    page = store.list_owned(Command, "mach_c", limit=2, newest_first=False)
    store.commit(Delete(second))

    rest = store.list_owned(Command, "mach_c", cursor=page.cursor, newest_first=False)

    assert list(rest.items) == [third]


@pytest.mark.parametrize("cursor", ["", "x", "!!!!", "Zm9v", "ü", "A" * 300])
def test_a_cursor_that_is_none_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        store.list_owned(Pod, "acct_1", cursor=cursor)


def test_a_cursor_of_another_list_is_refused(store: Store) -> None:
    store.commit(Create(a_command(machine_id="m1")), Create(a_command(machine_id="m1")))
    cursor = store.list_owned(Command, "m1", limit=1).cursor
    assert cursor is not None

    with pytest.raises(InvalidRequestError):
        store.list_owned(Command, "m2", cursor=cursor)
    with pytest.raises(InvalidRequestError):
        store.list_owned(Pod, "m1", cursor=cursor)


def test_a_page_without_room_is_refused(store: Store) -> None:
    with pytest.raises(InternalError):
        store.list_owned(Pod, "acct_1", limit=0)


def test_a_row_moves_to_the_list_of_its_new_owner(store: Store) -> None:
    command = a_command(machine_id="mach_move")
    store.commit(Create(command))

    store.commit(Update(replace(command, state=CommandState.SUCCEEDED)))

    assert list(store.list_owned(Command, "mach_move").items) == []
    assert [c.id for c in store.list_owned(Command, "mach_move#ended").items] == [command.id]


def test_only_active_rows_are_listed_as_active(store: Store) -> None:
    resting, running, stopping = (
        a_pod(state=state) for state in (PodState.STOPPED, PodState.RUNNING, PodState.STOPPING)
    )
    machine = a_machine()
    store.commit(Create(resting), Create(running), Create(stopping), Create(machine))
    assert list(store.list_active(Pod)) == [running, stopping]

    store.commit(
        Update(replace(running, state=PodState.STOPPED)),
        Update(replace(resting, state=PodState.LAUNCHING)),
        Update(replace(machine, state=MachineState.RELEASED)),
    )

    assert [pod.id for pod in store.list_active(Pod)] == sorted([resting.id, stopping.id])
    assert list(store.list_active(Machine)) == []
