"""Whole operations that meet trouble before they begin and in the middle."""

from hypothesis import strategies as st
from hypothesis.stateful import rule
from people import AILMENTS, REQUESTS, WORDS, Agents, People
from scene import KINDS, PICK, Act, act
from scenes import STEPS_OF
from troubles import CRASHES, LIES, LOSSES, TIME, Functions, Liars, Time

from podferry.domain.pod import Pod, PodState
from podferry.domain.snapshot import SnapshotKind

VERBS = st.sampled_from(["stop", "stop", "accept", "move", "save"])
"""Of a pod that runs; one that is stopped is started."""
WAYS_BACK = {
    "start": ("ReturnMachine", "AwaitReturned", "FailStart"),
    "stop": ("AssessStop", "ResumeMachine", "FailStop"),
    "move": ("AssessStop", "ResumeMachine", "FailMove"),
}
LATER = st.sampled_from([0, 5, 100])
"""For how many seconds it goes on."""
WRITING = act("write", pick=PICK, kind=st.sampled_from(SnapshotKind))
CALM = act("time_goes_by", seconds=st.just(0))
TROUBLES = st.one_of(CALM, AILMENTS, AILMENTS, LOSSES, CRASHES, WORDS, WRITING, TIME, REQUESTS)
ALL_FAIL = act("commands_fail_or_hang", pick=st.just(0), kinds=st.just(KINDS), times=st.just(9))
AILING = st.one_of(ALL_FAIL, AILMENTS, TROUBLES)


class Storms(People, Agents, Functions, Time):
    """Anything at any time, and above all where an operation is at work."""

    @rule(what=st.one_of(REQUESTS, WRITING))
    def a_user(self, what: Act) -> None:
        self.perform(what)

    @rule(what=st.one_of(WORDS, AILMENTS))
    def an_agent(self, what: Act) -> None:
        self.perform(what)

    @rule(what=st.one_of(LOSSES, CRASHES))
    def a_misfortune(self, what: Act) -> None:
        self.perform(what)

    @rule(what=TIME)
    def the_time(self, what: Act) -> None:
        self.perform(what)

    @rule(for_long=st.booleans(), pick=PICK)
    def all_is_well_again(self, for_long: bool, pick: int) -> None:
        self.faults_end()
        if for_long:
            self.write_a_file(pick, SnapshotKind.VOLUME)
            self.go(1000)

    @rule(pick=PICK, verb=VERBS, first=TROUBLES, step=PICK, second=TROUBLES, then=LATER)
    def an_operation_is_disturbed(
        self, pick: int, verb: str, first: Act, step: int, second: Act, then: int
    ) -> None:
        self.perform(first)
        self.begin_an_operation(pick, verb, step)
        self.perform(second)
        self.go(then)

    def begin_an_operation(self, pick: int, verb: str, step: int) -> None:
        """One that makes sense, of a pod with something to lose, up to one of its steps."""
        if any(pod.operation_id is not None for pod in self.pods()):
            self.go(40)
        pod = self.picked(self.pods(), pick)
        if pod is None or pod.operation_id is not None:
            return
        self.write_a_file(0, SnapshotKind.VOLUME)
        self.write_a_file(0, SnapshotKind.ENVIRONMENT)
        kind = self._ask_for(pod, verb)
        if kind in STEPS_OF:
            steps = (*STEPS_OF[kind], *WAYS_BACK[kind])
            self.it_goes_on_until(steps[step % len(steps)])

    def _ask_for(self, pod: Pod, verb: str) -> str:
        if pod.state == PodState.STOPPED:
            verb = "start"
        kind = "stop" if verb == "accept" else verb
        body = {"accept_loss": True} if verb == "accept" else {}
        self.ask("POST", f"/v1/pods/{pod.id}/{kind}", body)
        return kind


class LyingStorms(Storms, Liars):
    """The same among providers that lie."""

    @rule(what=LIES)
    def a_lie(self, what: Act) -> None:
        self.perform(what)

    @rule(pick=PICK, verb=VERBS, first=st.one_of(LIES, AILING), step=PICK, second=LIES, then=LATER)
    def an_operation_meets_a_liar(
        self, pick: int, verb: str, first: Act, step: int, second: Act, then: int
    ) -> None:
        self.an_operation_is_disturbed(pick, verb, first, step, second, then)
