"""Real clients against the real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.product import Product


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path)
