"""One CA for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.certificates import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))
