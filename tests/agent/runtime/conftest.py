from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.runtime.fake_api import FakeControlPlane
from tests.agent.runtime.harness import AgentProcess, free_port, make_root

AgentFactory = Callable[..., AgentProcess]


@pytest.fixture
def plane() -> Iterator[FakeControlPlane]:
    control_plane = FakeControlPlane()
    yield control_plane
    control_plane.close()


@pytest.fixture
def new_agent(plane: FakeControlPlane, tmp_path: Path) -> Iterator[AgentFactory]:
    """Makes boxes with an agent that is not started yet; ends them all at the end."""
    agents: list[AgentProcess] = []

    def make(name: str = "box", **environment: str) -> AgentProcess:
        root = make_root(tmp_path / name)
        agent = AgentProcess(plane, root, tmp_path / f"{name}.log", environment)
        agents.append(agent)
        return agent

    yield make
    for agent in agents:
        if agent.process is not None:
            agent.kill_box()


@contextmanager
def running_box(
    folder: Path, **environment: str
) -> Iterator[tuple[FakeControlPlane, AgentProcess]]:
    """For test files whose tests leave the agent as they found it, and so can share one."""
    control_plane = FakeControlPlane()
    agent = AgentProcess(control_plane, make_root(folder / "box"), folder / "box.log", environment)
    try:
        agent.start()
        yield control_plane, agent
    finally:
        agent.kill_box()
        control_plane.close()


@pytest.fixture
def agent(new_agent: AgentFactory) -> AgentProcess:
    """A running agent."""
    return new_agent().start()


@pytest.fixture(name="free_port")
def a_free_port() -> int:
    return free_port()
