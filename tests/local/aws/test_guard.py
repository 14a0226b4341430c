"""The shims refuse an emulator that they were not written for."""

import types

import pytest

from local.aws.errors import ShimError
from local.aws.shims import guard


def test_installed_emulator_is_the_pinned_one() -> None:
    guard.check_version()


def test_other_version_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PINNED", "0.0.1")

    with pytest.raises(ShimError, match=r"the shims need 0\.0\.1"):
        guard.check_version()


def test_missing_name_is_refused_before_anything_is_replaced() -> None:
    emulator = types.ModuleType("emulator")

    with pytest.raises(ShimError, match="emulator has no _gone"):
        guard.replace(emulator, "_gone", None)
    assert not hasattr(emulator, "_gone")
