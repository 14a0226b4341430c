"""Types of fields of agents' messages."""

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from podferry.http.models.fields import Integer

TEXT_LENGTH = 160
LIST_LENGTH = 100
MAP_LENGTH = 100
OBJECT_BYTES = 64 * 1024
_LARGEST = 2**63


class AgentInput(BaseModel):
    """What an agent sends; fields that we do not know are left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def shortened(text: str) -> str:
    """The text, or its beginning and end: of a long path the end says most."""
    if len(text) <= TEXT_LENGTH:
        return text
    head = TEXT_LENGTH // 3
    return f"{text[:head]}...{text[head + 3 - TEXT_LENGTH :]}"


def bounded(value: Any) -> Any:
    """JSON with long texts and lists cut; only what no agent of ours sends is refused."""
    cut = _cut(value)
    if len(json.dumps(cut)) > OBJECT_BYTES:
        raise ValueError(f"This has more than {OBJECT_BYTES} bytes")
    return cut


def _cut(value: Any) -> Any:
    match value:
        case str():
            return shortened(value)
        case list():
            return [_cut(item) for item in value[:LIST_LENGTH]]
        case dict():
            items = list(value.items())[:MAP_LENGTH]
            return {shortened(name): _cut(item) for name, item in items}
        case int() | float() if abs(value) > _LARGEST:
            raise ValueError("A number is too large")
    return value


def _first(value: Any) -> Any:
    return value[:LIST_LENGTH] if isinstance(value, list) else value


Text = Annotated[str, AfterValidator(shortened)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_first)]
Free = Annotated[dict[str, Any], AfterValidator(bounded)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[Integer, Field(ge=0, lt=_LARGEST)]
Measure = Annotated[float, Field(strict=True, ge=0, lt=1e15)]
SnapshotId = Annotated[str, Field(min_length=1, max_length=64)]
