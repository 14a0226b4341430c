"""What one run of the embedded AWS is told by its command line."""

from dataclasses import dataclass

from local.aws.data_dir import DataDir

REGION = "us-east-1"
ACCESS_KEY_ID = "test"
SECRET_ACCESS_KEY = "test"  # The emulator's built-in root user; it listens on loopback only.


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the emulator and its shims need to know."""

    data: DataDir
    port: int
    front_port: int
    python: str
    concurrency: int
    front_api: str | None
    end_with: int | None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_front(self) -> str:
        return f"http://127.0.0.1:{self.front_port}"
