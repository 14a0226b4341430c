"""What users and agents do: every request, and every word there is."""

from hypothesis import strategies as st
from scene import KINDS, PICK, SPEC, Scene, act

from podferry.domain.command import Command, CommandKind, CommandState
from podferry.domain.machine import NoticeKind
from podferry.domain.operation import Cause, Operation, OperationState
from podferry.domain.snapshot import SnapshotKind
from podferry.services.agent.heartbeat import CommandReport
from podferry.services.agent.notice import Announcement
from podferry.services.agent.register import RegisterRequest

MOST_PODS = 3
KIND = st.sampled_from(SnapshotKind)
THEN = st.sampled_from([0, 2, 40])
"""For how many seconds everybody does their work after a request."""
END = st.sampled_from([CommandState.SUCCEEDED, CommandState.FAILED])
NOTICE_SECONDS = st.sampled_from([None, 5.0, 30.0, 120.0])
REQUESTS = st.one_of(
    act("create_a_pod", shares=st.booleans(), starts=st.booleans(), then=THEN),
    act("start", pick=PICK, then=THEN),
    act("stop", pick=PICK, accept_loss=st.booleans(), then=THEN),
    act("stop_for_another_cause", pick=PICK, cause=st.sampled_from(Cause)),
    act("move", pick=PICK, provider=st.sampled_from(["alpha", "beta"]), then=THEN),
    act("save", pick=PICK, then=THEN),
    act("delete", pick=PICK),
    act(
        "change",
        pick=PICK,
        interval=st.sampled_from([60, 120, 300]),
        on_reclaim=st.sampled_from(["restart", "stop"]),
    ),
    act("cancel", pick=PICK),
    act("the_same_request_again", pick=PICK),
)
WORDS = st.one_of(
    act("one_beat", pick=PICK),
    act("a_hand_in_comes_late", box=PICK, other=PICK, pick=PICK),
    act("a_report_comes_late", box=PICK, other=PICK, pick=PICK, state=END),
    act("another_process_registers", pick=PICK),
    act("a_notice", pick=PICK, kind=st.sampled_from(NoticeKind), seconds=NOTICE_SECONDS),
)
"""What agents say."""
FAILING = st.sampled_from([*([kind] for kind in KINDS), KINDS, KINDS, KINDS])
AILMENTS = st.one_of(
    act("commands_fail_or_hang", pick=PICK, kinds=FAILING, times=st.sampled_from([0, 1, 9])),
    act("hand_ins_go", pick=PICK, goes=st.sampled_from(["wrong", "astray", "through"])),
    act("an_agent_falls_silent", pick=PICK),
    act("an_agent_speaks_again", pick=PICK),
    act("an_agent_is_restarted", pick=PICK),
)
"""What ails agents."""


class People(Scene):
    """Users through HTTP, with an Idempotency-Key on each request."""

    def create_a_pod(self, shares: bool, starts: bool, then: int) -> None:
        pods = self.pods()
        if len(pods) >= MOST_PODS:
            return
        body = {"name": "pod", "spec": SPEC, "start": starts}
        if shares and pods:
            body["volume"] = {"id": pods[0].volume_id}
        self.ask("POST", "/v1/pods", body)
        self.go(then)

    def write(self, pick: int, kind: SnapshotKind) -> None:
        self.write_a_file(pick, kind)

    def start(self, pick: int, then: int) -> None:
        self._ask_of_pod(pick, "start", {})
        self.go(then)

    def stop(self, pick: int, accept_loss: bool, then: int) -> None:
        self._ask_of_pod(pick, "stop", {"accept_loss": accept_loss})
        self.go(then)

    def stop_for_another_cause(self, pick: int, cause: Cause) -> None:
        pod = self.picked(self.pods(), pick)
        if pod is not None:
            ask = self.world.app.stop_pod.ask
            self.attempt(lambda: ask(pod.account_id, pod.id, accept_loss=False, cause=cause))

    def move(self, pick: int, provider: str, then: int) -> None:
        self._ask_of_pod(pick, "move", {"requirements": {"providers": [provider]}})
        self.go(then)

    def save(self, pick: int, then: int) -> None:
        self._ask_of_pod(pick, "save", {})
        self.go(then)

    def delete(self, pick: int) -> None:
        pod = self.picked(self.pods(), pick)
        if pod is not None and len(self.pods()) > 1:
            self.ask("DELETE", f"/v1/pods/{pod.id}")

    def change(self, pick: int, interval: int, on_reclaim: str) -> None:
        pod = self.picked(self.pods(), pick)
        if pod is not None:
            body = {"save_interval_seconds": interval, "on_reclaim": on_reclaim}
            self.ask("PATCH", f"/v1/pods/{pod.id}", body)

    def cancel(self, pick: int) -> None:
        running = [o for o in self.world.of(Operation) if o.state == OperationState.RUNNING]
        operation = self.picked(running, pick)
        if operation is not None:
            self.ask("POST", f"/v1/operations/{operation.id}/cancel")

    def the_same_request_again(self, pick: int) -> None:
        """Promise 10: it has one effect, and the answer of the first."""
        request = self.picked([r for r in self.answered if r.method == "POST"], pick)
        if request is None:
            return
        first, was_effective = self.answered[request], request in self.effective
        again = self.send(request)
        assert self.made.get(request, 0) <= 1, f"{request} had two effects"
        if was_effective and first is not None and again is not None:
            answers = (first.status, first.text), (again.status, again.text)
            assert answers[0] == answers[1], (request, *answers)

    def _ask_of_pod(self, pick: int, verb: str, body: dict[str, object]) -> None:
        pod = self.picked(self.pods(), pick)
        if pod is not None:
            self.ask("POST", f"/v1/pods/{pod.id}/{verb}", body)


class Agents(Scene):
    """One beat at a time; failures, and words that are late, twice or of a stranger."""

    def one_beat(self, pick: int) -> None:
        box = self.picked([b for b in self.boxes() if not b.is_dead], pick)
        if box is not None:
            box.beat()

    def an_agent_falls_silent(self, pick: int) -> None:
        box = self.picked(self.boxes(), pick)
        if box is not None:
            self.trouble()
            box.is_dead = True

    def an_agent_speaks_again(self, pick: int) -> None:
        silent = [b for b in self.boxes() if b.is_dead and not (b.was_told_to_end or b.is_twin)]
        box = self.picked(silent, pick)
        if box is not None:
            self.trouble()
            box.is_dead = False

    def commands_fail_or_hang(self, pick: int, kinds: list[CommandKind], times: int) -> None:
        """Zero times: they hang, until this is taken back."""
        box = self.picked(self.boxes(), pick)
        if box is None:
            return
        self.trouble()
        if times:
            box.fails.update(dict.fromkeys(kinds, times))
        else:
            box.hangs ^= set(kinds)

    def an_agent_is_restarted(self, pick: int) -> None:
        box = self.picked(self.boxes(), pick)
        if box is not None:
            self.trouble()
            box.restart()

    def hand_ins_go(self, pick: int, goes: str) -> None:
        box = self.picked(self.boxes(), pick)
        if box is not None:
            self.trouble()
            box.hand_in_goes = goes

    def a_hand_in_comes_late(self, box: int, other: int, pick: int) -> None:
        """Perhaps that of another machine."""
        speaker, maker = self._registered(box), self._registered(other)
        if speaker is not None and maker is not None and maker.hand_ins:
            speaker.hand_in_again(maker.hand_ins[-1 - pick % len(maker.hand_ins)])

    def a_report_comes_late(self, box: int, other: int, pick: int, state: CommandState) -> None:
        """What was said before, or the contrary; of another machine's command it is void."""
        speaker, maker = self._registered(box), self._registered(other)
        if speaker is None or maker is None or not maker.said:
            return
        said = maker.said[-1 - pick % len(maker.said)]
        ended = said.state if speaker is maker else state
        before = {c.id: c for c in self.world.of(Command)}
        is_alone = not self.world.meanwhile
        speaker.say(CommandReport(id=said.id, state=ended, result=said.result))
        if speaker is not maker and is_alone:
            assert before == {c.id: c for c in self.world.of(Command)}, "a stranger was heard"

    def another_process_registers(self, pick: int) -> None:
        box = self._registered(pick)
        if box is None:
            return
        machine_id, token = box.machine_id, box.request.environment["PF_TOKEN"]
        request = RegisterRequest(
            machine_id=machine_id, token_sha256="0" * 64, agent_version="0", facts={}
        )
        app = self.world.app
        self.attempt(lambda: app.register_agent.register(app.identify.who(token), request))
        assert self.world.machine_of(box).token_sha256 != request.token_sha256

    def a_notice(self, pick: int, kind: NoticeKind, seconds: float | None) -> None:
        """The agent tells of it and makes the save that it is given."""
        box = self._registered(pick)
        if box is not None and not box.is_dead:
            said = Announcement(kind=kind, source="test", deadline_seconds=seconds)
            self.attempt(lambda: self._announce(box, said))

    def _announce(self, box, said: Announcement) -> None:
        app = self.world.app
        turn = app.take_notice.take(app.identify.who(box.token), said)
        if turn.command is not None:
            box._obey(app, turn.command)

    def _registered(self, pick: int):
        return self.picked([b for b in self.boxes() if b.token is not None], pick)
