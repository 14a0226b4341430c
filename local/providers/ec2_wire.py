"""The wire of the EC2 Query API, by moto's parsers and serializers over AWS's own service model."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from moto.core.loaders import create_loader
from moto.core.model import ServiceModel
from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer, SerializationContext

from local.providers.web import Request, Response

_CREDENTIAL = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/")
_XML = "text/xml;charset=UTF-8"


class Ec2Error(Exception):
    """An error of EC2, with its code."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


@dataclass(frozen=True, slots=True)
class Ec2Call:
    """One request."""

    action: str
    parameters: dict[str, Any]
    """Named as in boto3."""


def signer_of(request: Request) -> tuple[str, str] | None:
    """The access key id and the region that a request is signed for; signatures are not checked."""
    found = _CREDENTIAL.search(request.headers.get("authorization", ""))
    return None if found is None else (found[1], found[2])


class Ec2Wire:
    """Reads requests and writes answers."""

    def __init__(self) -> None:
        model = create_loader().load_service_model("ec2", "service-2")
        self._service = ServiceModel(model, service_name="ec2")

    def read(self, request: Request) -> Ec2Call:
        """Raises: Ec2Error: EC2 has no such action."""
        values = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        action = values.get("Action", "")
        if action not in self._service.operation_names:
            raise Ec2Error("InvalidAction", f"The action {action} is not valid here.")
        parsed = EC2QueryParser(self._service.operation_model(action)).parse({"values": values})
        return Ec2Call(action, parsed)

    def answer(self, call: Ec2Call, result: dict[str, Any]) -> Response:
        operation = self._service.operation_model(call.action)
        context = SerializationContext(request_id=_request_id())
        serialized = EC2Serializer(operation, context=context).serialize(result)
        return Response(200, serialized["body"].encode(), _XML)


def error_response(error: Ec2Error) -> Response:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{error.code}</Code>"
        f"<Message>{escape(str(error))}</Message></Error></Errors>"
        f"<RequestID>{_request_id()}</RequestID></Response>"
    )
    return Response(error.status, body.encode(), _XML)


def _request_id() -> str:
    return secrets.token_hex(16)
