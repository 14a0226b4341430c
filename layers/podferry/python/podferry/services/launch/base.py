"""Which image exactly a pod's machines begin as: asked once, and kept with the pod."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podferry.domain.image import BaseImage, parse_image
from podferry.domain.operation import Operation
from podferry.domain.pod import Pod
from podferry.ports.image_registry import ImageRegistries, Unresolved
from podferry.ports.store import Change, Update
from podferry.services.records import Records


@dataclass(frozen=True, slots=True)
class ResolveBase:
    """A tag is looked up at the first launch; every later one gets the same image.

    A registry that cannot say is no reason not to launch: the machine may well be able to pull
    what we may not look at. The pod shows why it has no digest, and the next launch asks again.
    """

    records: Records
    registries: ImageRegistries

    def settled(self, pod: Pod, operation: Operation) -> Pod:
        """The pod with its base; noted on its row with an event if it was not known before."""
        known = pod.base
        if known is not None and known.reference == pod.spec.image and known.digest is not None:
            return pod
        base = self._look(pod.spec.image)

        def plan() -> Sequence[Change]:
            fresh = self.records.store.get(Pod, pod.id)
            event = self.records.pod_event(
                fresh,
                "pod.base_resolved" if base.digest else "pod.base_unresolved",
                operation,
                image=base.reference,
                digest=base.digest,
                reason=base.unresolved,
            )
            return [Update(replace(fresh, base=base)), event]

        self.records.apply(plan)
        return self.records.store.get(Pod, pod.id)

    def _look(self, reference: str) -> BaseImage:
        name, now = parse_image(reference), self.records.now()
        answer = name.digest or self.registries.digest(name)
        if isinstance(answer, Unresolved):
            return BaseImage(reference=reference, unresolved=answer.reason, looked_at=now)
        return BaseImage(reference=reference, digest=answer, looked_at=now)
