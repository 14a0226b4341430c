"""The service account that a simulated Google Cloud accepts, and the check of its tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

PROJECT = "simulated-project"
_AUDIENCE = "https://compute.googleapis.com/"


class ServiceAccount:
    """One account with one private key, which outlives the simulator."""

    def __init__(self, directory: Path, key: str) -> None:
        self._email = f"{key}@{PROJECT}.iam.gserviceaccount.com"
        self._private_pem = _stored_key(directory / "service-account.pem")
        private = serialization.load_pem_private_key(self._private_pem, password=None)
        self._public_pem = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def key_file(self) -> str:
        """The text of the file that Google gives to whoever makes a key."""
        return json.dumps(
            {
                "type": "service_account",
                "project_id": PROJECT,
                "private_key_id": "simulated",
                "private_key": self._private_pem.decode(),
                "client_email": self._email,
            }
        )

    def accepts(self, token: str) -> bool:
        """Whether the account has signed a token for this API that is still valid."""
        try:
            claims = jwt.decode(token, certs=self._public_pem, audience=_AUDIENCE)
        except ValueError:
            return False
        return bool(claims.get("iss") == claims.get("sub") == self._email)


def _stored_key(path: Path) -> bytes:
    if path.exists():
        return path.read_bytes()
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    return pem
