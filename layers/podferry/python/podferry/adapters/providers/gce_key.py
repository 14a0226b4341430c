"""A service account of Google, and the tokens it signs for itself.

Compute Engine takes a JWT that the account signs (AIP-4111), so no token has to be fetched.
"""

import threading
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podferry.adapters.providers.scrub import wrong_places
from podferry.domain.errors import KeyRefusedError

AUDIENCE = "https://compute.googleapis.com/"


class GceOptions(BaseModel):
    """What Podferry adds to the file that Google gives."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = None
    """A source image with Docker and NVIDIA's toolkit, like `projects/P/global/images/family/F`."""
    network: str = "global/networks/default"
    subnetworks: dict[str, str] = Field(default_factory=dict)
    """By region, for networks whose subnetworks are not made by themselves."""
    tags: list[str] = ["podferry-pod"]
    """Network tags, which firewall rules name."""


class GceKey(BaseModel):
    """The `api_key` of the provider keys' `gce` entry: the text of a service account's key file."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    project_id: str = Field(pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$")
    client_email: str = Field(min_length=1)
    private_key_id: str = ""
    private_key: str = Field(min_length=1, repr=False)
    podferry: GceOptions = GceOptions()


def read_key(text: str) -> GceKey:
    """The key in an `api_key`.

    Raises:
        KeyRefusedError: it is not of that form.
    """
    try:
        return GceKey.model_validate_json(text)
    except ValidationError as error:
        raise KeyRefusedError(
            "the api_key of gce must be the text of a service account's key file (JSON with "
            f"project_id, client_email and private_key); wrong at: {wrong_places(error)}"
        ) from None


class Tokens:
    """Bearer tokens of one account; each lives an hour and is made anew before it ends."""

    def __init__(self, key: GceKey) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._credentials: Any = None

    def current(self) -> str:
        """Raises: KeyRefusedError: the private key cannot be read."""
        with self._lock:
            if self._credentials is None:
                self._credentials = self._load()
            if not self._credentials.valid:
                self._credentials.refresh(None)
            token = self._credentials.token
        return token.decode() if isinstance(token, bytes) else str(token)

    def _load(self) -> Any:
        # A fifth of a second, which only users of this provider should pay.
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from google.auth.jwt import Credentials  # noqa: PLC0415

        info = {
            "client_email": self._key.client_email,
            "private_key": self._key.private_key,
            "private_key_id": self._key.private_key_id,
            # Asked for by the reader of key files, and not used by tokens signed by oneself.
            "token_uri": "https://oauth2.googleapis.com/token",
        }
        try:
            return Credentials.from_service_account_info(info, audience=AUDIENCE)
        except (ValueError, GoogleAuthError):
            # The cause is left out: it may quote the key.
            raise KeyRefusedError(
                "the private_key of gce cannot be read; store the key file as Google gave it"
            ) from None
