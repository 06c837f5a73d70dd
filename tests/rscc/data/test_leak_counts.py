"""What a search for leaks counts: each image once, whoever names it twice."""

import pytest
from grounds_to_compare import write_grounds

from rscc.data.leaks import find_leaks
from rscc.errors import DatasetLayoutInvalid


def test_a_path_that_is_given_twice_counts_once(tmp_path) -> None:
    tested = write_grounds(tmp_path / "tested", range(2))
    learnt = write_grounds(tmp_path / "learnt", range(10, 13))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    result = find_leaks([*tested, broken, *tested, broken], [*learnt, broken, *learnt, broken])
    assert (result.test, result.training) == (2, 3)
    assert result.unread == (broken, broken), "as a test image, and as one of training"


def test_a_test_path_given_twice_does_not_stand_for_a_training_image(tmp_path) -> None:
    tested = write_grounds(tmp_path, range(1))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    with pytest.raises(DatasetLayoutInvalid, match="no images of 80 pixels"):
        find_leaks([*tested, *tested], [broken])
