"""What many use cases are built from."""

from functools import cached_property

from podferry.bootstrap.ports import Ports
from podferry.services.clouds import Clouds
from podferry.services.commands import GiveCommand
from podferry.services.experience import Experiences
from podferry.services.giving_up import GiveUp
from podferry.services.idempotency import GuardedStore
from podferry.services.launch.base import ResolveBase
from podferry.services.launch.boot_watch import BootWatch
from podferry.services.launch.choose import ListCandidates
from podferry.services.launch.request import Boot, LaunchRequests
from podferry.services.operations import Operations
from podferry.services.records import Records
from podferry.services.saves.begin import BeginSave
from podferry.services.saves.end import EndSave
from podferry.services.verification import VerifySnapshot


class Foundation:
    """The parts that use cases share, built on first use from one set of ports."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.clock = ports.clock
        self.store = GuardedStore(ports.store)
        self.records = Records(self.store, ports.clock, ports.randomness)

    @cached_property
    def operations(self) -> Operations:
        return Operations(self.records, self.ports.workflows, self.ports.schedules)

    @cached_property
    def commands(self) -> GiveCommand:
        return GiveCommand(self.records, self.operations, self.ports.workflows)

    @cached_property
    def verify_snapshot(self) -> VerifySnapshot:
        return VerifySnapshot(self.records, self.ports.objects)

    @cached_property
    def clouds(self) -> Clouds:
        return Clouds(self.records, self.ports.clouds, self.ports.signals)

    @cached_property
    def experiences(self) -> Experiences:
        return Experiences(self.records)

    @cached_property
    def candidates(self) -> ListCandidates:
        return ListCandidates(self.records, self.clouds, self.experiences)

    @cached_property
    def launch_requests(self) -> LaunchRequests:
        ports = self.ports
        boot = Boot(api_url=ports.api_url, script=ports.boot_script, bundle=ports.bundle)
        return LaunchRequests(self.records, ResolveBase(self.records, ports.registries), boot)

    @cached_property
    def boot_watch(self) -> BootWatch:
        return BootWatch(self.records, self.operations, self.experiences)

    @cached_property
    def give_up(self) -> GiveUp:
        return GiveUp(self.records, self.clouds, self.ports.signals, self.experiences)

    @cached_property
    def begin_save(self) -> BeginSave:
        return BeginSave(self.records)

    @cached_property
    def end_save(self) -> EndSave:
        return EndSave(self.records)
