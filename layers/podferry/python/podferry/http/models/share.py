"""Shares of environments: with whom, what was found, what was decided, and what left."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field, WithJsonSchema

from podferry.domain.share import Decision, Finding, Receipt, Share, ShareState
from podferry.http.models.fields import NO_NUL, Flag, Input, Name, Output, unique
from podferry.http.params import ACCOUNT_ID_PATTERN
from podferry.services.sharing.ask import DecisionOn, NewShare

Moment = Annotated[
    AwareDatetime, WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 40})
]
AccountId = Annotated[str, Field(pattern=ACCOUNT_ID_PATTERN)]


class ShareBody(Input):
    """With whom, and for how long."""

    accounts: Annotated[tuple[AccountId, ...], Field(max_length=50), AfterValidator(unique)] = (
        Field(default=(), description="Accounts that may accept it by name.")
    )
    link: Flag = Field(
        default=False, description="Make a secret; any account that has it may accept the share."
    )
    expires_at: Moment | None = Field(
        default=None, description="Nobody can accept it from then on; copies stay."
    )

    def to_share(self) -> NewShare:
        return NewShare(accounts=self.accounts, with_link=self.link, expires_at=self.expires_at)


class ReceiptView(Output):
    """What leaves. Every copy is compared with it before it can be used."""

    sealed_at: datetime
    entries: int = Field(description="Names: files, directories, links.")
    files: int
    bytes: int
    excluded: dict[str, int] = Field(description="How many names stay behind, by reason.")
    excluded_bytes: int
    accepted: tuple[str, ...] = Field(
        description="Paths with findings that their owner accepted; the first 20."
    )
    accepted_files: int
    manifest_sha256: str = Field(
        description="Hash over all that leaves: names, metadata and contents, in their order."
    )

    @classmethod
    def of(cls, receipt: Receipt | None) -> "ReceiptView | None":
        if receipt is None:
            return None
        return cls(**{name: getattr(receipt, name) for name in cls.model_fields})


class ShareView(Output):
    """A version of an environment that is shared, as its owner sees it."""

    id: str
    environment_id: str
    version: int
    state: ShareState = Field(
        description="`needs_decision`: findings have to be excluded or accepted before it can be "
        "accepted by anybody; only `shared` can."
    )
    accounts: tuple[str, ...]
    has_link: bool
    expires_at: datetime | None
    operation_id: str = Field(description="The newest scan or sealing.")
    findings: int
    undecided: int
    accepts: int = Field(description="How many copies were asked for.")
    receipt: ReceiptView | None = Field(description="Once it is sealed.")
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, share: Share) -> "ShareView":
        made = {"has_link", "receipt"}
        return cls(
            **{name: getattr(share, name) for name in cls.model_fields.keys() - made},
            has_link=share.token_sha256 is not None,
            receipt=ReceiptView.of(share.receipt),
        )


class NewShareView(Output):
    """A share that was just begun."""

    share: ShareView
    token: str | None = Field(
        description="The secret of the link, if one was asked for. Shown once; `null` when the "
        "answer is given again for the same Idempotency-Key."
    )


class HitView(Output):
    """Where, and by which rule; what stands there is never shown or stored."""

    line: int = Field(description="0 in a binary file.")
    rule: str
    kind: str
    member: str | None = Field(description="In an archive: the name of the file in it.")


class FindingView(Output):
    """A file that looks as if it held a secret."""

    id: str
    path: str
    size: int
    hits: tuple[HitView, ...] = Field(description="The first 20.")
    decision: Decision | None

    @classmethod
    def of(cls, finding: Finding) -> "FindingView":
        hits = tuple(
            HitView(line=hit.line, rule=hit.rule, kind=hit.kind, member=hit.member)
            for hit in finding.hits
        )
        return cls(
            id=finding.id,
            path=finding.path,
            size=finding.size,
            hits=hits,
            decision=finding.decision,
        )


class DecisionBody(Input):
    """What to do with a finding."""

    path: str = Field(
        min_length=1,
        max_length=4200,
        pattern=NO_NUL,
        description="Of a finding, as it is listed; `<directory>/**` stands for all below.",
    )
    decision: Decision = Field(
        description="`exclude`: the file stays behind. `accept`: it leaves as it is."
    )

    def to_decision(self) -> DecisionOn:
        return DecisionOn(path=self.path, decision=self.decision)


class DecideBody(Input):
    """Decisions; of two on one finding the later counts."""

    decisions: Annotated[tuple[DecisionBody, ...], Field(min_length=1, max_length=500)]


class AcceptBody(Input):
    """How to take what is shared."""

    token: str | None = Field(
        default=None,
        max_length=100,
        pattern=NO_NUL,
        description="The secret of the link; accounts that are named need none.",
        json_schema_extra={"writeOnly": True},
    )
    name: Name = Field(default="shared", description="Of the new environment.")
