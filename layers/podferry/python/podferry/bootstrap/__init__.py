"""The composition root: the one place that joins use cases and adapters.

Nothing here runs at import. Each adapter and each use case is built on first use, so that a
function pays only for what it calls, and asks only for the settings that it has.
"""

from functools import cache, cached_property

from podferry.bootstrap.aws import AwsPorts
from podferry.bootstrap.bill import Bill
from podferry.bootstrap.environments import Environments
from podferry.bootstrap.ports import Ports
from podferry.bootstrap.users import Users
from podferry.domain.operation import OperationKind
from podferry.domain.snapshot import SnapshotKind
from podferry.services.agent.heartbeat import Heartbeat
from podferry.services.agent.notice import TakeNotice
from podferry.services.agent.objects import RecordCapture, SignDownloads, SignUploads
from podferry.services.agent.output import AppendOutput
from podferry.services.agent.reach import KeepHostKey, ListLogins
from podferry.services.agent.register import RegisterAgent
from podferry.services.agent.saves import AskSave
from podferry.services.agent.secrets import GiveSecrets
from podferry.services.cancel import CancelOperation
from podferry.services.garbage.bury import BuryDead
from podferry.services.garbage.collect import CollectGarbage
from podferry.services.garbage.forget import ForgetRows
from podferry.services.garbage.recharge import MoveCharges
from podferry.services.garbage.sweep import SweepObjects
from podferry.services.garbage.thin import ThinOut
from podferry.services.garbage.trash import EmptyTrash
from podferry.services.idle.stop import StopIdle
from podferry.services.idle.unevaluated import TellUnevaluated
from podferry.services.launch.await_agent import AwaitAgent
from podferry.services.launch.begin import BeginStart, CheckSnapshots
from podferry.services.launch.choose import ChooseOffer
from podferry.services.launch.finish import FinishStart
from podferry.services.launch.give_back import AwaitReturned, FailStart, ReturnMachine
from podferry.services.launch.install import InstallAgent
from podferry.services.launch.rent import Rent
from podferry.services.launch.restore import AwaitReady, RestoreSnapshot
from podferry.services.move.steps import CheckTarget, FailMove, FinishMove, RunHalf
from podferry.services.move_pod import MovePod
from podferry.services.pods import ChangePod, CreatePod, DeletePod
from podferry.services.reconcile import Reconcile
from podferry.services.recover.doorbell import Doorbell
from podferry.services.recover.ghosts import SweepGhosts
from podferry.services.recover.leftovers import FollowLost, NoteReturn
from podferry.services.recover.losses import FindLosses
from podferry.services.recover.notices import AnswerNotices
from podferry.services.recover.seal import SealLoss
from podferry.services.recover.sweep import Sweep
from podferry.services.run_command import RunCommand
from podferry.services.save_pod import SavePod
from podferry.services.saves.autosave import Autosave
from podferry.services.saves.settle import SettleSave
from podferry.services.saves.thin import ThinSaves
from podferry.services.start_pod import StartPod
from podferry.services.stop.capture import BeginStop, CaptureSnapshot, Quiesce
from podferry.services.stop.commit import CommitHeads, VerifyCaptures
from podferry.services.stop.give_up import AwaitGone, FinishStop, GiveUpMachine
from podferry.services.stop.turn_back import AssessStop, FailStop, ResumeMachine
from podferry.services.stop_pod import StopPod
from podferry.services.storage import ReadStorage
from podferry.services.volumes.history import ForkVolume, RestoreVolume
from podferry.services.volumes.keep import KeepVolume
from podferry.settings import read_settings

__all__ = ["Application", "AwsPorts", "Ports", "application"]


class Application(Users, Environments, Bill):
    """Every use case, built on first use from one set of ports."""

    # Pods

    @cached_property
    def create_pod(self) -> CreatePod:
        return CreatePod(self.records, self.start_pod)

    @cached_property
    def change_pod(self) -> ChangePod:
        return ChangePod(self.records)

    @cached_property
    def delete_pod(self) -> DeletePod:
        return DeletePod(self.records)

    @cached_property
    def start_pod(self) -> StartPod:
        return StartPod(self.records, self.operations)

    @cached_property
    def stop_pod(self) -> StopPod:
        return StopPod(self.records, self.operations)

    @cached_property
    def move_pod(self) -> MovePod:
        return MovePod(self.records, self.operations)

    @cached_property
    def save_pod(self) -> SavePod:
        return SavePod(self.records, self.begin_save)

    @cached_property
    def cancel_operation(self) -> CancelOperation:
        workflows = self.ports.workflows
        return CancelOperation(self.records, self.operations, workflows, self.end_save)

    @cached_property
    def run_command(self) -> RunCommand:
        return RunCommand(self.records)

    @cached_property
    def read_storage(self) -> ReadStorage:
        return ReadStorage(self.records)

    # Volumes

    @cached_property
    def restore_volume(self) -> RestoreVolume:
        return RestoreVolume(self.records)

    @cached_property
    def fork_volume(self) -> ForkVolume:
        return ForkVolume(self.records)

    @cached_property
    def keep_volume(self) -> KeepVolume:
        return KeepVolume(self.records)

    # Agents

    @cached_property
    def register_agent(self) -> RegisterAgent:
        return RegisterAgent(self.records, self.ports.signals)

    @cached_property
    def heartbeat(self) -> Heartbeat:
        returned = NoteReturn(self.records, self.operations, self.ports.signals)
        return Heartbeat(self.records, self.operations, self.end_save, returned)

    @cached_property
    def take_notice(self) -> TakeNotice:
        return TakeNotice(self.records, self.begin_save)

    @cached_property
    def sign_uploads(self) -> SignUploads:
        return SignUploads(self.records, self.ports.objects)

    @cached_property
    def sign_downloads(self) -> SignDownloads:
        return SignDownloads(self.records, self.ports.objects, self.verify_snapshot)

    @cached_property
    def record_capture(self) -> RecordCapture:
        begin, end = self.begin_save, self.end_save
        settle = SettleSave(self.records, self.verify_snapshot, begin, end)
        return RecordCapture(self.records, settle)

    @cached_property
    def ask_save(self) -> AskSave:
        return AskSave(self.records, self.begin_save)

    @cached_property
    def keep_host_key(self) -> KeepHostKey:
        return KeepHostKey(self.records)

    @cached_property
    def list_logins(self) -> ListLogins:
        return ListLogins(self.records)

    @cached_property
    def give_secrets(self) -> GiveSecrets:
        return GiveSecrets(self.records, self.ports.secret_vault)

    @cached_property
    def append_output(self) -> AppendOutput:
        return AppendOutput(self.records)

    # Steps of a launch

    @cached_property
    def begin_start(self) -> BeginStart:
        return BeginStart(self.records, self.operations)

    @cached_property
    def check_snapshots(self) -> CheckSnapshots:
        return CheckSnapshots(self.records, self.operations, self.verify_snapshot)

    @cached_property
    def choose_offer(self) -> ChooseOffer:
        deployment = self.ports.deployment_id
        return ChooseOffer(self.records, self.operations, self.candidates, deployment)

    @cached_property
    def rent(self) -> Rent:
        return Rent(
            self.records,
            self.operations,
            self.clouds,
            self.experiences,
            self.launch_requests,
            self.ports.installer,
        )

    @cached_property
    def install_agent(self) -> InstallAgent:
        return InstallAgent(
            self.records,
            self.operations,
            self.clouds,
            self.boot_watch,
            self.launch_requests,
            self.ports.installer,
        )

    @cached_property
    def await_agent(self) -> AwaitAgent:
        return AwaitAgent(self.records, self.operations, self.clouds, self.boot_watch)

    def restore_snapshot(self, kind: SnapshotKind) -> RestoreSnapshot:
        workflows = self.ports.workflows
        return RestoreSnapshot(self.records, self.operations, workflows, self.commands, kind)

    @cached_property
    def await_ready(self) -> AwaitReady:
        return AwaitReady(self.records, self.operations, self.commands)

    @cached_property
    def finish_start(self) -> FinishStart:
        return FinishStart(self.records, self.operations, self.experiences)

    @cached_property
    def return_machine(self) -> ReturnMachine:
        return ReturnMachine(self.records, self.operations, self.give_up)

    @cached_property
    def await_returned(self) -> AwaitReturned:
        return AwaitReturned(self.operations, self.give_up)

    @cached_property
    def fail_start(self) -> FailStart:
        return FailStart(self.records, self.operations)

    # Steps of a stop

    @cached_property
    def begin_stop(self) -> BeginStop:
        return BeginStop(self.records, self.operations, self.end_save)

    @cached_property
    def quiesce(self) -> Quiesce:
        return Quiesce(self.records, self.operations, self.commands)

    def capture_snapshot(self, kind: SnapshotKind) -> CaptureSnapshot:
        return CaptureSnapshot(self.records, self.operations, self.commands, kind)

    @cached_property
    def verify_captures(self) -> VerifyCaptures:
        signals = self.ports.signals
        return VerifyCaptures(self.records, self.operations, self.verify_snapshot, signals)

    @cached_property
    def commit_heads(self) -> CommitHeads:
        return CommitHeads(self.records, self.operations)

    @cached_property
    def give_up_machine(self) -> GiveUpMachine:
        return GiveUpMachine(self.operations, self.give_up)

    @cached_property
    def await_gone(self) -> AwaitGone:
        return AwaitGone(self.operations, self.give_up)

    @cached_property
    def finish_stop(self) -> FinishStop:
        return FinishStop(self.records, self.operations)

    @cached_property
    def assess_stop(self) -> AssessStop:
        return AssessStop(self.records, self.operations, self.give_up)

    @cached_property
    def resume_machine(self) -> ResumeMachine:
        return ResumeMachine(self.records, self.operations, self.commands)

    @cached_property
    def fail_stop(self) -> FailStop:
        return FailStop(self.records, self.operations)

    # Steps of a move

    @cached_property
    def check_target(self) -> CheckTarget:
        return CheckTarget(self.operations, self.candidates)

    def run_half(self, kind: OperationKind) -> RunHalf:
        return RunHalf(self.records, self.operations, self.stop_pod, self.start_pod, kind)

    @cached_property
    def finish_move(self) -> FinishMove:
        return FinishMove(self.records, self.operations)

    @cached_property
    def fail_move(self) -> FailMove:
        return FailMove(self.records, self.operations)

    # Background

    @cached_property
    def reconcile(self) -> Reconcile:
        ports = self.ports
        return Reconcile(self.records, self.operations, ports.workflows, ports.signals)

    @cached_property
    def autosave(self) -> Autosave:
        thin, signals = ThinSaves(self.records), self.ports.signals
        idle = TellUnevaluated(self.records, signals)
        return Autosave(self.records, self.begin_save, self.end_save, thin, signals, idle)

    @cached_property
    def sweep(self) -> Sweep:
        signals, clouds = self.ports.signals, self.clouds
        seal = SealLoss(
            self.records, self.operations, self.end_save, self.give_up, self.experiences
        )
        deployment = self.ports.deployment_id
        return Sweep(
            StopIdle(self.records, self.stop_pod, signals),
            AnswerNotices(self.records, self.move_pod, self.stop_pod, signals),
            FindLosses(self.records, self.give_up, seal, signals),
            FollowLost(self.records, self.give_up, signals),
            SweepGhosts(self.records, self.operations, clouds, signals, deployment),
        )

    @cached_property
    def doorbell(self) -> Doorbell:
        return Doorbell(self.records, self.take_notice, self.sweep)

    @cached_property
    def collect_garbage(self) -> CollectGarbage:
        records = self.records
        sweep = SweepObjects(records, self.ports.objects, self.verify_snapshot)
        thin = ThinOut(records, ThinSaves(records), EmptyTrash(records))
        bury, charges, forget = BuryDead(records), MoveCharges(records), ForgetRows(records)
        signals = self.ports.signals
        return CollectGarbage(records, thin, bury, sweep, charges, forget, signals)


@cache
def application() -> Application:
    """The application of this function, from its environment."""
    return Application(AwsPorts(read_settings()))
