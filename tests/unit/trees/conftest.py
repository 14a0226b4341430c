"""An account with snapshots that the engine really made."""

from pathlib import Path

import pytest

from tests.unit.http.deployment import Deployment
from tests.unit.trees.shelf import Shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(Deployment().an_account(), tmp_path)
