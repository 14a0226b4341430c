"""Where a list goes on: the id of the last row seen, bound to the list it was given out for."""

import base64
import binascii
import hashlib

from podferry.domain.errors import InvalidRequestError

_TAG_LENGTH = 8


def encode_cursor(partition: str, entity_id: str) -> str:
    """A cursor that continues the list of `partition` after `entity_id`."""
    return base64.urlsafe_b64encode(f"{_tag(partition)}{entity_id}".encode()).decode().rstrip("=")


def decode_cursor(partition: str, cursor: str) -> str:
    """The id that the list goes on after.

    Raises:
        InvalidRequestError: not a cursor, or one of another list.
    """
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise _foreign() from error
    tag, entity_id = text[:_TAG_LENGTH], text[_TAG_LENGTH:]
    if tag != _tag(partition) or not entity_id:
        raise _foreign()
    return entity_id


def _tag(partition: str) -> str:
    return hashlib.sha256(partition.encode()).hexdigest()[:_TAG_LENGTH]


def _foreign() -> InvalidRequestError:
    return InvalidRequestError(
        "the cursor was not given out for this list; leave it away to start at the beginning"
    )
