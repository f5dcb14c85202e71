"""The shared session as a fixture."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Any:
    """Return the one session."""
    from tests.spark.session import session

    return session()
