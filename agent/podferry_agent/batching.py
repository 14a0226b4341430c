"""Joins questions that many threads ask at once into few requests to the control plane."""

import queue
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from podferry_agent.errors import StoppingError, TransferError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Batcher(Generic[K, V]):
    """While one request is on its way, the questions that arrive form the next one."""

    def __init__(self, ask: Callable[[Sequence[K]], Mapping[K, V]], limit: int) -> None:
        self._ask = ask
        self._limit = limit
        self._questions: queue.SimpleQueue[tuple[K, Future[V]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def get(self, key: K) -> V:
        """Raises: whatever the request raised; TransferError if the answer leaves the key out."""
        answer: Future[V] = Future()
        self._questions.put((key, answer))
        return answer.result()

    def close(self) -> None:
        self._questions.put(None)
        self._thread.join()

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if batch:
                self._answer(batch)
        self._refuse_rest()

    def _next_batch(self) -> tuple[list[tuple[K, Future[V]]], bool]:
        batch = []
        question = self._questions.get()
        while question is not None:
            batch.append(question)
            if len(batch) == self._limit:
                return batch, True
            try:
                question = self._questions.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _answer(self, batch: list[tuple[K, Future[V]]]) -> None:
        # Two threads may want the same object; it is asked for once.
        keys = list(dict.fromkeys(key for key, _ in batch))
        try:
            answers = self._ask(keys)
        except Exception as error:  # noqa: BLE001 - it belongs to those who asked
            for _, future in batch:
                future.set_exception(error)
            return
        for key, future in batch:
            if key in answers:
                future.set_result(answers[key])
            else:
                future.set_exception(TransferError(f"the control plane gave no URL for {key}"))

    def _refuse_rest(self) -> None:
        while not self._questions.empty():
            question = self._questions.get()
            if question is not None:
                question[1].set_exception(StoppingError("the transfer is over"))
