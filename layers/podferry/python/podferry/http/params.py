"""Parameters that several routes take: ids, pages, revisions, patience."""

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query

from podferry.http.revision import IF_MATCH_PATTERN

_ULID = "[0-7][0-9a-hjkmnp-tv-z]{25}"

AccountId = Annotated[str, Path(pattern=f"^acct_{_ULID}$")]
PodId = Annotated[str, Path(pattern=f"^pod_{_ULID}$")]
OperationId = Annotated[str, Path(pattern=f"^op_{_ULID}$")]
EnvironmentId = Annotated[str, Path(pattern=f"^env_{_ULID}$")]
VolumeId = Annotated[str, Path(pattern=f"^vol_{_ULID}$")]
SnapshotId = Annotated[str, Path(pattern=f"^snap_{_ULID}$")]
CommandId = Annotated[str, Path(pattern=f"^cmd_{_ULID}$")]
ShareId = Annotated[str, Path(pattern=f"^share_{_ULID}$")]
KeyId = Annotated[str, Path(pattern=f"^key_{_ULID}$")]
SshKeyId = Annotated[str, Path(pattern=f"^ssh_{_ULID}$")]

VersionNo = Annotated[str, Path(pattern="^[1-9][0-9]{0,5}$", description="Of a version.")]

VOLUME_ID_PATTERN = f"^vol_{_ULID}$"
ENVIRONMENT_ID_PATTERN = f"^env_{_ULID}$"
ACCOUNT_ID_PATTERN = f"^acct_{_ULID}$"
SNAPSHOT_ID_PATTERN = f"^snap_{_ULID}$"

Limit = Annotated[int, Query(ge=1, le=100, description="Rows in a page.")]
Cursor = Annotated[
    str | None,
    Query(min_length=1, max_length=1024, description="`next_cursor` of the page before this one."),
]
Prefer = Annotated[
    str | None,
    Header(
        description="`wait=<seconds>` (at most 25): answer when it has ended, or then. "
        "Other preferences are left aside, as RFC 7240 wants it."
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        pattern=IF_MATCH_PATTERN,
        description="The ETag that the change is based on; refused with 412 if it moved.",
    ),
]

DEFAULT_LIMIT = 50
