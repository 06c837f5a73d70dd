import pytest
from engines import make_tasks


@pytest.fixture
def tasks(tmp_path):
    """Make tasks of small pairs by their names."""
    return lambda *names: make_tasks(tmp_path, names)
