"""The agent's settings: what is wrong is told with the name of the variable."""

from pathlib import Path

import pytest

from podferry_agent.errors import SettingsError
from podferry_agent.settings import Settings, read_settings


def settings(root: Path, **environment: str) -> Settings:
    fixed = {"PF_API": "https://api.test", "PF_MACHINE": "mach_test", "PF_ROOT": str(root)}
    return read_settings({**fixed, **environment})


def test_where_the_ssh_server_listens_can_be_said(tmp_path: Path) -> None:
    assert settings(tmp_path).ssh_listen is None
    assert settings(tmp_path, PF_SSH_LISTEN="127.0.0.7:2222").ssh_listen == ("127.0.0.7", 2222)


@pytest.mark.parametrize(
    "address", ["2222", ":2222", "127.0.0.1:", "127.0.0.1:ssh", "h:65536", "h:²"]
)
def test_what_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match=r"PF_SSH_LISTEN='.*' must be HOST:PORT"):
        settings(tmp_path, PF_SSH_LISTEN=address)


@pytest.mark.parametrize("seconds", ["soon", "0", "-1"])
def test_a_window_that_is_no_time_is_refused(tmp_path: Path, seconds: str) -> None:
    with pytest.raises(SettingsError, match="PF_IDLE_WINDOW_SECONDS="):
        settings(tmp_path, PF_IDLE_WINDOW_SECONDS=seconds)
