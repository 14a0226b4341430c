"""An unused pod is warned of and stopped; whatever speaks against it keeps it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from idle_scenes import POLICY, SLACK, STOP, WARN, happened, set_policy, stops, watched_pod
from invariants import check_at_rest, check_data
from saving_scenes import ask_save, shown
from scenes import DATA, ask, prepared

from podferry.domain.activity import Signal, SignalState
from podferry.domain.command import CommandKind
from podferry.domain.errors import InternalError
from podferry.domain.idle import IdleState, IdleWatch, idle_state
from podferry.domain.operation import Cause, OperationState
from podferry.domain.pod import PodState
from podferry.services.run_command import ExecRequest

WARNING, OVER, UNEVALUATED = (
    "pod.idle_warning",
    "pod.idle_warning_over",
    "pod.idle_not_evaluated",
)


def test_promise_09_an_idle_pod_is_stopped_as_by_its_user(world):
    pod = watched_pod(world)
    world.watch(STOP + SLACK)
    assert world.pod(pod).state == PodState.STOPPED
    (stop,) = stops(world, pod)
    assert (stop.cause, stop.state) == (Cause.IDLE, OperationState.SUCCEEDED)
    check_at_rest(world, pod)
    check_data(world, pod, DATA, "installed")
    by_user = world.stop(pod)
    assert world.visited(stop) == world.visited(by_user)


def test_case_r9_the_warning_comes_first_and_says_when_it_will_be_stopped(world):
    pod = watched_pod(world)
    world.watch(STOP + SLACK)
    (warning,), (stop,) = happened(world, pod, WARNING), stops(world, pod)
    gap = stop.created_at - warning.created_at
    assert POLICY.gap <= gap <= POLICY.gap + timedelta(minutes=1)
    says = warning.evidence["stops_at"]
    assert says <= stop.created_at.isoformat()
    assert warning.evidence["signals"] == [str(signal) for signal in Signal]
    assert stop.created_at - pod.started_at >= POLICY.stop_after


def test_case_r9_a_warning_that_is_late_leaves_the_whole_time_to_react(world):
    """Nothing was evaluated when the warning was due, and long after."""
    pod = watched_pod(world)
    world.watch(WARN - 2)
    world.live(60, is_scheduled=False)
    world.watch(WARN + SLACK)
    (warning,) = happened(world, pod, WARNING)
    world.watch(STOP)
    (stop,) = stops(world, pod)
    assert stop.created_at - warning.created_at >= POLICY.gap


def test_a_pod_without_a_policy_is_never_stopped(world):
    pod = world.launch()
    world.watch(60)
    assert world.pod(pod).state == PodState.RUNNING
    assert world.store.find(IdleWatch, pod.machine_id) is None
    assert shown(world, pod).idle_watch is None


def test_pod_shows_since_when_it_is_idle_and_when_it_will_be_stopped(world):
    pod = watched_pod(world)
    world.watch(2)
    seen = shown(world, pod).idle_watch
    assert idle_state(seen, world.clock.now()) == IdleState.IDLE
    world.watch(WARN)
    seen = shown(world, pod).idle_watch
    assert idle_state(seen, world.clock.now()) == IdleState.WARNED
    assert seen.idle_since + POLICY.warn_after <= seen.warned_at


@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize("state", [SignalState.ACTIVE, SignalState.UNKNOWN])
def test_one_signal_that_is_not_quiet_keeps_the_pod(world, signal, state):
    pod = watched_pod(world)
    world.box.usage.is_now(state, signal)
    world.watch(3 * STOP)
    assert world.pod(pod).state == PodState.RUNNING
    assert happened(world, pod, WARNING) == []


def test_a_signal_that_does_not_count_keeps_nothing(world):
    pod = watched_pod(world, replace(POLICY, signals=(Signal.GPU,)))
    world.box.usage.is_now(SignalState.ACTIVE, Signal.CPU, Signal.SSH)
    world.watch(STOP + SLACK)
    assert world.pod(pod).state == PodState.STOPPED


def test_activity_calls_the_warning_off_and_the_time_begins_anew(world):
    pod = watched_pod(world)
    world.watch(WARN + SLACK)
    assert len(happened(world, pod, WARNING)) == 1
    world.box.usage.is_now(SignalState.ACTIVE, Signal.GPU)
    world.watch(1.5)
    (over,) = happened(world, pod, OVER)
    assert over.evidence["verdict"] == "active"
    world.box.usage.is_now(SignalState.QUIET, Signal.GPU)
    quiet_at = world.clock.now()
    world.watch(STOP - 1)
    assert world.pod(pod).state == PodState.RUNNING
    world.watch(1 + SLACK)
    (stop,) = stops(world, pod)
    assert stop.created_at - quiet_at >= POLICY.stop_after
    assert len(happened(world, pod, WARNING)) == 2


def test_activity_between_two_evaluations_calls_the_warning_off_too(world):
    pod = watched_pod(world)
    world.watch(WARN + SLACK)
    world.box.usage.is_now(SignalState.QUIET, Signal.SSH)  # there was somebody, for a moment
    world.watch(1.5)
    assert len(happened(world, pod, OVER)) == 1
    world.watch(STOP - 2)
    assert world.pod(pod).state == PodState.RUNNING


def test_activity_between_the_look_and_the_write_keeps_the_pod(world):
    pod = watched_pod(world)
    world.watch(STOP + SLACK, until=lambda: len(happened(world, pod, WARNING)) == 1)
    beats = []

    def speak():
        """The agent's word comes when the stop is about to be written."""
        if world.clock.now() >= happened(world, pod, WARNING)[0].created_at + POLICY.gap:
            world.store.before_commit = lambda: None
            world.box.usage.is_now(SignalState.ACTIVE, Signal.SSH)
            world.clock.advance(timedelta(seconds=5))
            world.box.beat()
            beats.append(world.seconds)

    sweep = world.sweep

    def sweep_and_speak():
        world.store.before_commit = speak
        outcome = sweep()
        world.store.before_commit = lambda: None
        return outcome

    world.sweep = sweep_and_speak
    world.watch(STOP)
    assert beats
    assert world.pod(pod).state == PodState.RUNNING
    assert stops(world, pod) == []


def test_case_b2_silence_of_the_agent_is_not_idleness(world):
    pod = watched_pod(world)
    world.watch(WARN - 1)
    world.is_silent = True
    world.watch(3)
    world.is_silent = False
    back_at = world.clock.now()
    world.watch(STOP - 1)
    assert world.pod(pod).state == PodState.RUNNING
    world.watch(1 + SLACK)
    (stop,) = stops(world, pod)
    assert stop.created_at - back_at >= POLICY.stop_after


def test_case_b2_time_without_evaluation_is_not_idleness(world):
    pod = watched_pod(world)
    world.watch(3)
    world.live(10 * STOP, is_scheduled=False)
    back_at = world.clock.now()
    world.watch(STOP + SLACK)
    (stop,) = stops(world, pod)
    assert stop.created_at - back_at >= POLICY.stop_after


def test_case_b2_both_have_to_say_that_it_is_idle(world):
    pod = watched_pod(world)
    world.box.usage.agrees = False
    world.watch(3 * STOP)
    assert world.pod(pod).state == PodState.RUNNING


def test_case_b2_a_policy_that_cannot_be_evaluated_is_told_of_once(world):
    pod = watched_pod(world)
    world.box.usage.is_now(SignalState.UNKNOWN, Signal.GPU)
    world.watch(6)
    assert happened(world, pod, UNEVALUATED) == []  # an agent may still be warming up
    world.watch(10)
    (told,) = happened(world, pod, UNEVALUATED)
    assert told.evidence["reason"] == "not known: gpu"
    assert world.signals.counts["IdleNotEvaluated"] >= 5
    world.box.usage.is_now(SignalState.ACTIVE, Signal.GPU)
    world.watch(2)
    rung = world.signals.counts["IdleNotEvaluated"]
    world.watch(5)
    assert world.signals.counts["IdleNotEvaluated"] == rung
    world.box.usage.is_now(SignalState.UNKNOWN, Signal.GPU)
    world.watch(6)
    assert len(happened(world, pod, UNEVALUATED)) == 2


def test_case_b2_a_dead_function_is_told_of_by_another_one(world):
    pod = watched_pod(world)
    world.sweep = dict
    world.watch(15)
    (told,) = happened(world, pod, UNEVALUATED)
    assert told.evidence == {"reason": "nobody has looked", "evaluated_at": None}
    assert world.pod(pod).state == PodState.RUNNING


def test_a_gpu_that_its_agent_cannot_see_is_not_idle(world):
    pod = watched_pod(world)
    world.box.metrics = {"gpus": []}
    world.watch(2 * STOP)
    assert world.pod(pod).state == PodState.RUNNING
    assert "gpu" in shown(world, pod).idle_watch.doubt


def test_a_command_of_the_user_is_work(world):
    pod = watched_pod(world)
    world.watch(2)
    world.box.hangs.add(CommandKind.EXEC)
    request = ExecRequest(argv=("sleep", "9000"), timeout_seconds=9000)
    world.app.run_command.ask(world.account.id, pod.id, request)
    world.watch(2 * STOP)
    assert world.pod(pod).state == PodState.RUNNING
    assert happened(world, pod, WARNING) == []


def test_a_save_that_its_user_waits_for_is_work_and_a_background_save_is_not(world):
    pod = watched_pod(world)
    world.box.holds_saves = True
    ask_save(world, pod)
    world.watch(2 * STOP)
    assert world.pod(pod).state == PodState.RUNNING
    world.box.holds_saves = False
    world.box.has_timer = True
    world.watch(STOP + SLACK)
    assert world.pod(pod).state == PodState.STOPPED


def test_time_counts_from_when_the_pod_was_handed_over(world):
    pod = prepared(world, "start")
    set_policy(world, pod, POLICY)
    ask(world, pod, "start")
    world.watch(5, until=lambda: world.pod(pod).state == PodState.RUNNING)
    ready_at = world.machine(pod).ready_at
    world.watch(STOP + SLACK)
    stop = stops(world, pod)[-1]
    assert stop.cause == Cause.IDLE
    assert stop.created_at - ready_at >= POLICY.stop_after
    check_data(world, pod, DATA, "installed")


def test_promise_02_an_idle_stop_that_fails_keeps_the_pod_and_warns_again(world):
    pod = watched_pod(world)
    world.box.fails[CommandKind.CAPTURE] = 100
    world.watch(STOP + SLACK, until=lambda: bool(stops(world, pod)))
    world.watch(5)
    (failed,) = stops(world, pod)
    assert failed.state == OperationState.FAILED
    assert world.pod(pod).state == PodState.RUNNING
    assert not world.box.is_paused
    world.box.fails.clear()
    world.watch(2 * STOP)
    again = stops(world, pod)[-1]
    assert again.state == OperationState.SUCCEEDED
    assert again.created_at - failed.ended_at >= POLICY.stop_after
    assert len(happened(world, pod, WARNING)) == 2


def test_another_policy_begins_the_time_anew(world):
    pod = watched_pod(world)
    world.watch(STOP - 1)
    longer = replace(POLICY, stop_after_minutes=20)
    set_policy(world, pod, longer)
    changed_at = world.clock.now()
    world.watch(20 + SLACK)
    (stop,) = stops(world, pod)
    assert stop.created_at - changed_at >= longer.stop_after
    assert len(happened(world, pod, WARNING)) == 2


def test_a_policy_that_is_taken_away_stops_nothing(world):
    pod = watched_pod(world)
    world.watch(WARN + SLACK)
    set_policy(world, pod, None)
    world.watch(2 * STOP)
    assert world.pod(pod).state == PodState.RUNNING
    assert shown(world, pod).idle_watch is None


def test_promise_10_two_evaluations_at_once_are_one_stop(world):
    pod = watched_pod(world)
    sweep = world.sweep

    def twice():
        seen = [0]

        def other():
            seen[0] += 1
            if seen[0] == 1:
                sweep()

        world.store.before_commit = other
        outcome = sweep()
        world.store.before_commit = lambda: None
        return outcome

    world.sweep = twice
    world.watch(STOP + SLACK)
    assert world.pod(pod).state == PodState.STOPPED
    assert len(stops(world, pod)) == 1
    assert len(happened(world, pod, WARNING)) == 1
    check_at_rest(world, pod)


def test_a_stop_of_its_user_comes_before(world):
    pod = watched_pod(world)
    world.watch(WARN + SLACK)
    world.stop(pod)
    world.watch(2 * STOP)
    (stop,) = stops(world, pod)
    assert stop.cause == Cause.USER
    assert len(happened(world, pod, WARNING)) == 1
    check_at_rest(world, pod)


def test_the_next_machine_begins_with_a_clean_watch(world):
    pod = watched_pod(world)
    world.watch(STOP + SLACK)
    world.start(pod)
    started_at = world.clock.now()
    world.watch(STOP - 2)
    assert world.pod(pod).state == PodState.RUNNING
    world.watch(2 + SLACK)
    stop = stops(world, pod)[-1]
    assert stop.created_at - started_at >= POLICY.stop_after - timedelta(minutes=1)
    assert len(stops(world, pod)) == 2


def test_one_pod_in_trouble_does_not_keep_others_from_being_evaluated(world, monkeypatch):
    broken, sound = watched_pod(world), world.launch()
    set_policy(world, sound, POLICY)
    find = world.store.find

    def find_or_break(kind, entity_id):
        if (kind, entity_id) == (IdleWatch, broken.machine_id):
            raise InternalError("the row cannot be read")
        return find(kind, entity_id)

    monkeypatch.setattr(world.store, "find", find_or_break)
    world.watch(STOP + SLACK)
    assert world.pod(broken).state == PodState.RUNNING
    assert world.pod(sound).state == PodState.STOPPED
    assert world.signals.counts["IdleEvaluationFailed"] >= STOP
