"""A simulated provider as a process of its own, and the switches a test turns on it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from podferry.adapters.providers.registry import ProviderAdapter, adapter
from podferry.domain.offer import Kind, Offer, Requirements
from podferry.ports.wrapped_cloud import WrappedCloud

REPOSITORY = Path(__file__).parents[3]
KEY = "contract-test-key"
_DEADLINE_SECONDS = 20.0


T = TypeVar("T")


class Simulation:
    """One running simulator."""

    def __init__(
        self, hello: dict[str, str], process: subprocess.Popen[str], kind: Kind | None = None
    ) -> None:
        self._kind = kind
        self.provider = hello["provider"]
        self.url = hello["url"]
        self._api_key = hello["api_key"]
        self.cloud = self.adapter()
        self._process = process
        self._client = httpx.Client(base_url=f"{self.url}/_sim/", timeout=10)

    def adapter(self, key: str = KEY) -> ProviderAdapter:
        whole = adapter(self.provider, self.api_key(key), self.url)
        return whole if self._kind is None else OneKind(whole, self._kind)

    def api_key(self, key: str = KEY) -> str:
        """`key` in the form that the provider gives its keys."""
        return self._api_key.replace(KEY, key)

    def set_faults(self, **faults: Any) -> None:
        self._control("POST", "faults", faults)

    def has_fault(self, name: str) -> bool:
        """Whether the provider can go wrong in this way at all."""
        answer = self._client.post("faults", json={name: "?"})
        return "no such fault" not in answer.text

    def shows_stock(self) -> bool:
        """Whether what cannot be had is missing from the offers."""
        return bool(self._control("GET", "state").json()["shows_stock"])

    def clear_faults(self) -> None:
        self._control("DELETE", "faults")

    def set_balance(self, micros: int) -> None:
        self._control("POST", "balance", {"micros": micros})

    def now(self) -> float:
        """The provider's clock, which `skip` moves."""
        return float(self._control("GET", "state").json()["now"])

    def skip(self, seconds: float) -> None:
        self._control("POST", "clock", {"advance_seconds": seconds})

    def reclaim(self, provider_id: str) -> None:
        self._control("POST", f"instances/{provider_id}/reclaim", {})

    def outbid(self, provider_id: str) -> httpx.Response:
        """Somebody bids more; 409 for a machine that was not rented by bid."""
        return self._client.post(f"instances/{provider_id}/outbid")

    def resume(self, provider_id: str) -> None:
        """What was taken back wakes up."""
        self._control("POST", f"instances/{provider_id}/resume")

    def read(self, provider_id: str, path: str) -> str:
        """A file in the container; empty as long as there is none."""
        body = {"argv": ["cat", path]}
        answer = self._client.post(f"instances/{provider_id}/exec", json=body)
        return str(answer.json().get("stdout", ""))

    def log(self, provider_id: str) -> str:
        return self._control("GET", f"instances/{provider_id}/log").text

    def instances(self) -> list[dict[str, Any]]:
        """What exists in truth, whatever the wire API says; gone ones are left out."""
        instances = self._control("GET", "state").json()["instances"]
        return [each for each in instances if each["phase"] not in {"gone", "failed"}]

    def stop(self) -> None:
        self._client.close()
        self._process.terminate()
        self._process.communicate(timeout=_DEADLINE_SECONDS)

    def _control(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self._client.request(method, path, json=body)
        answer.raise_for_status()
        return answer


class OneKind(WrappedCloud):
    """A provider as if it had nothing but machines of one kind."""

    def __init__(self, whole: ProviderAdapter, kind: Kind) -> None:
        super().__init__(whole)
        self._kind = kind
        self.traits = replace(whole.traits, boots={kind: whole.traits.boots[kind]})
        self.min_interval_seconds = whole.min_interval_seconds

    def list_offers(self, wanted: Requirements) -> list[Offer]:
        return super().list_offers(replace(wanted, kinds=(self._kind,)))

    def _around(self, call_name: str, call: Callable[[], T]) -> T:
        return call()


def start_simulation(name: str, directory: Path, module: str = "local.providers") -> Simulation:
    """`name` is a provider's, with a kind behind it if only that kind is to be seen."""
    provider, _, kind = name.partition("-")
    command = [sys.executable, "-m", module, provider, "--port", "0", "--key", KEY]
    command += ["--data", str(directory / name), "--base-cache", str(directory)]
    command += ["--boot-seconds", "0.1"]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the simulator of {provider} ended with {process.wait()}"
    return Simulation(json.loads(line), process, Kind(kind) if kind else None)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {_DEADLINE_SECONDS:.0f} s: {what}"
        time.sleep(0.02)
