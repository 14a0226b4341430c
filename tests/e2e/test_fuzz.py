"""Random requests made from the API's own description, against the running stack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deployment import Deployment, User

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
LEFT_OUT = (
    # A cursor or a key that is valid in form can still be refused: that is not an error of the API.
    "positive_data_acceptance",
    # Methods that no route has (TRACE) are answered by the gateway, with 404, not by us.
    "unsupported_method",
)
EXAMPLES = 3
PHASES = os.environ.get("FUZZ_PHASES", "examples,fuzzing,stateful")
"""`make fuzz` adds `coverage`, thousands of requests at the edges of every field: ten minutes."""
LONGEST_SECONDS = 1500


@pytest.mark.timeout(LONGEST_SECONDS)
def test_random_requests_find_no_5xx_and_nothing_undocumented(
    deployment: Deployment, user: User, tmp_path: Path
) -> None:
    for provider in deployment.info.control_urls:
        deployment.set_fault(provider, no_capacity=True)
    done = subprocess.run(
        [
            str(SCHEMATHESIS),
            "run",
            f"{deployment.info.api_url}/openapi.json",
            "--header",
            f"Authorization: Bearer {user.token}",
            f"--exclude-checks={','.join(LEFT_OUT)}",
            "--exclude-path-regex=^/agent/",
            # The run would revoke its own key and find nothing but 401 from then on.
            "--exclude-operation-id=revoke_key",
            f"--phases={PHASES}",
            f"--max-examples={EXAMPLES}",
            "--seed=1",
            "--no-color",
        ],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS - 20,
    )
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
