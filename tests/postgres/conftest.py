"""Fixtures of the tests over PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.product import Product

from saga_mcp.log.place import ServerPlace


@pytest.fixture
def product(tmp_path: Path, server_place: ServerPlace) -> Product:
    """The product over real pipes, serving LEDGER, with its saga log in PostgreSQL."""
    return Product(tmp_path, url=server_place.url)
