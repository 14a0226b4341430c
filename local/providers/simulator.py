"""What all simulated providers share: authorisation, faults around create and delete, reclaim."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from local.providers.billing import BillingRule
from local.providers.catalog import Entry, remaining_stock
from local.providers.clock import Clock
from local.providers.control import Control
from local.providers.faults import PECULIAR, Faults
from local.providers.fleet import BoxHost, Fleet
from local.providers.instance import Instance, Phase
from local.providers.store import Store
from local.providers.web import (
    BadJSONError,
    DropConnectionError,
    Handler,
    Request,
    Response,
    Router,
)

_CONTROL_PREFIX = "/_sim/"
_PROXY_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_STARTING_BALANCE_MICROS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a simulated provider is started with."""

    data: Path
    """Where its instances are remembered."""
    host: BoxHost
    key: str
    """The API key that is accepted."""
    boot_seconds: float
    price_file: Path | None
    """Other prices and stock than those of its catalogue."""


class Simulator(ABC):
    """One provider: its wire API, its instances, its bill, and the switches of a test."""

    name: ClassVar[str]
    billing: ClassVar[BillingRule]
    """How instances are charged."""
    unsupported_faults: ClassVar[frozenset[str]] = frozenset()
    own_faults: ClassVar[frozenset[str]] = frozenset()
    """The peculiar ones that it knows."""
    shows_stock: ClassVar[bool] = True
    """Whether what cannot be had is missing from the offers."""

    def __init__(self, setup: Setup) -> None:
        self.store = Store(setup.data)
        self.clock = Clock(self.store.clock_offset)
        self.faults = Faults(self.unsupported_faults | (PECULIAR - self.own_faults))
        self.fleet = Fleet(self.store, setup.host, self.clock, self.faults, setup.boot_seconds)
        self._key = setup.key
        self._router = Router(self.routes())
        self._control = Control(self)
        self._settling = threading.Lock()
        self._leaving: set[str] = set()
        self.fleet.open(self)

    @property
    def api_key(self) -> str:
        """The accepted key in the form in which a customer of the provider has it."""
        return self._key

    @abstractmethod
    def routes(self) -> Sequence[tuple[str, str, Handler]]:
        """The wire API: method, pattern of the whole path, handler."""

    @abstractmethod
    def presented_key(self, request: Request) -> str | None:
        """The API key in a request."""

    @abstractmethod
    def refuse(self, request: Request, *, has_key: bool) -> Response | None:
        """The answer to a missing or wrong key; None where none is needed."""

    @abstractmethod
    def too_many_requests(self, request: Request) -> Response | None:
        """The answer to a request that comes too soon."""

    @abstractmethod
    def unknown_path(self, request: Request, allowed: tuple[str, ...]) -> Response:
        """The answer where no route fits."""

    @abstractmethod
    def broken_body(self, reason: str) -> Response:
        """The answer to a body that is not JSON."""

    @abstractmethod
    def internal_error(self) -> Response:
        """The provider's answer when it breaks."""

    @abstractmethod
    def reclaimed_phase(self, instance: Instance) -> Phase:
        """What becomes of an instance that the provider takes back."""

    def can_be_outbid(self, _instance: Instance) -> bool:
        """Whether a higher bid takes it away."""
        return False

    @abstractmethod
    def settle(self) -> None:
        """End what the balance no longer covers."""

    def container_environment(self, _instance: Instance) -> dict[str, str]:
        """Variables that the provider adds to those of the customer."""
        return {}

    def container_files(self, _instance: Instance) -> dict[str, str]:
        """Files that the provider puts into the container."""
        return {}

    def handle(self, request: Request) -> Response:
        if request.path.startswith(_CONTROL_PREFIX):
            return self._control.handle(request)
        self.settle_now()
        if self.faults.take("proxy_page"):
            return Response(502, _PROXY_PAGE, "text/html")
        return self._refusal(request) or self._route(request)

    def settle_now(self) -> None:
        with self._settling:
            self.settle()

    def close(self) -> None:
        self.fleet.close()

    def bill(self) -> dict[str, int]:
        """What each instance ever rented costs so far, in micro-USD."""
        now = self.clock.now()
        return {each.id: self.billing.cost_micros(each, now) for each in self.fleet.all()}

    @property
    def deposit_micros(self) -> int:
        deposit = self.store.deposit_micros
        return _STARTING_BALANCE_MICROS if deposit is None else deposit

    @property
    def balance_micros(self) -> int:
        return self.deposit_micros - sum(self.bill().values())

    def set_balance(self, micros: int) -> None:
        self.store.deposit_micros = micros + sum(self.bill().values())
        self.fleet.save()

    def advance_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.store.clock_offset = self.clock.offset_seconds
        self.fleet.save()

    def create(self, instance: Instance, accepted: Response) -> Response:
        """Create an instance, or do what a create fault says."""
        if self.faults.take("create_500_not_created"):
            return self.internal_error()
        if self.faults.take("create_ok_but_nothing"):
            return accepted
        bump = self.faults.number("price_bump", 1.0)
        instance.micros_per_hour = round(instance.micros_per_hour * bump)
        self.fleet.add(instance)
        if self.faults.take("create_500_but_exists"):
            return self.internal_error()
        if self.faults.take("create_timeout"):
            raise DropConnectionError
        return accepted

    def destroy(self, instance: Instance, accepted: Response) -> Response:
        """End an instance, or do what a delete fault says."""
        if self.faults.take("delete_fails"):
            return self.internal_error()
        if not self.faults.take("delete_says_ok_but_stands"):
            self.fleet.end(instance.id, Phase.GONE)
        return accepted

    def visible(self) -> list[Instance]:
        """Instances that a listing shows, gone ones too."""
        newest = self.clock.now() - self.faults.number("listing_lag_seconds")
        return [each for each in self.fleet.all() if each.created_at <= newest]

    def in_stock(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those of the entries that can be rented."""
        if self.faults.value("no_capacity"):
            return []
        instances = self.fleet.all()
        return [entry for entry in entries if remaining_stock(entry, instances) > 0]

    def is_ending(self, instance: Instance) -> bool:
        """Whether it has ended, and is still shown as one that is about to."""
        age = self.clock.now() - instance.changed_at
        return instance.phase is Phase.GONE and age < self.faults.number("terminating_seconds")

    def is_unknown(self, instance: Instance) -> bool:
        """Whether it is so young that only lists show it."""
        age = self.clock.now() - instance.created_at
        return age < self.faults.number("get_lag_seconds")

    def reclaim(self, instance: Instance, *, warn: bool, seconds: float) -> None:
        """Take an instance back: SIGTERM if `warn`, the end after `seconds`."""
        box = self.fleet.find_box(instance.id)
        if box is not None and warn:
            box.terminate()
        phase = self.reclaimed_phase(instance)
        if seconds <= 0:
            self.fleet.end(instance.id, phase)
            return

        def end_later() -> None:
            if box is None:
                time.sleep(seconds)
            else:
                box.wait(seconds)
            self.fleet.end(instance.id, phase)
            self._leaving.discard(instance.id)

        self._leaving.add(instance.id)
        threading.Thread(target=end_later, daemon=True).start()

    def is_leaving(self, instance: Instance) -> bool:
        """Whether it was told that it will be taken back, and is still there."""
        return instance.id in self._leaving

    def _refusal(self, request: Request) -> Response | None:
        key = self.presented_key(request)
        if self.faults.value("unauthorised") or key != self._key:
            refusal = self.refuse(request, has_key=key is not None)
            if refusal is not None:
                return refusal
        return self.too_many_requests(request)

    def _route(self, request: Request) -> Response:
        match = self._router.find(request.method, request.path)
        if match.handler is None:
            return self.unknown_path(request, match.allowed)
        try:
            return match.handler(request, *match.groups)
        except BadJSONError as error:
            return self.broken_body(str(error))
