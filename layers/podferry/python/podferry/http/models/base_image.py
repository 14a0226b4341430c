"""The exact image of a pod, as users see it."""

from datetime import datetime

from pydantic import Field

from podferry.domain.image import BaseImage
from podferry.http.models.fields import Output


class BaseView(Output):
    """The image that the pod's machines begin as, exactly."""

    image: str = Field(description="As the pod names it.")
    digest: str | None = Field(
        description="What the tag stood for at the first launch; each later one gets the same."
    )
    unresolved: str | None = Field(
        description="Why there is no digest: machines get what the tag stands for at their start."
    )
    looked_at: datetime

    @classmethod
    def of(cls, base: BaseImage | None) -> "BaseView | None":
        if base is None:
            return None
        return cls(
            image=base.reference,
            digest=base.digest,
            unresolved=base.unresolved,
            looked_at=base.looked_at,
        )
