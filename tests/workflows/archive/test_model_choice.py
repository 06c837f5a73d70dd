"""The model of an archive follows the pixel size of its scenes, unless one is named."""

import json

import pytest
from rasters import north_up, textured, write_scene

from workflows.archive.folder import ArchiveFolder
from workflows.archive.plan import model_for
from workflows.options import SceneOptions
from workflows.pairs.rows import PairRow


def rows(root, *cells):
    """Pairs of scenes with so many metres per pixel."""
    made = []
    for number, cell in enumerate(cells):
        names = [root / f"{number}_{year}.tif" for year in (2019, 2020)]
        for name in names:
            write_scene(name, textured(16, 16), transform=north_up(cell=cell))
        made.append(PairRow(str(number), *map(str, names)))
    return made


@pytest.mark.parametrize(
    ("cells", "model", "is_forced", "is_told"),
    [
        ((0.5,), "rscc-base", False, False),
        ((10.0, 10.0), "rscc-medium", False, False),
        ((10.0, 10.0, 0.5), "rscc-medium", False, True),
        ((3.0,), "rscc-base", True, False),
        ((3.2,), "rscc-medium", False, False),
    ],
)
def test_the_model_is_that_of_most_pairs(tmp_path, cells, model, is_forced, is_told):
    chosen, options, warning = model_for(
        rows(tmp_path, *cells), ArchiveFolder(tmp_path / "a"), SceneOptions()
    )
    assert (chosen, options.force, warning is not None) == (model, is_forced, is_told)


def test_an_archive_keeps_its_model_and_missing_scenes_decide_nothing(tmp_path):
    table = [PairRow("gone", str(tmp_path / "x.tif"), str(tmp_path / "y.tif"))]
    folder = ArchiveFolder(tmp_path)
    assert model_for(table, folder, SceneOptions())[0] == "rscc-base"
    (tmp_path / "run.json").write_text(json.dumps({"model": {"name": "rscc-small"}}))
    assert model_for(table, folder, SceneOptions())[0] == "rscc-small"
    (tmp_path / "run.json").write_text(json.dumps({"model": {"name": "/their/own"}}))
    assert model_for(table, folder, SceneOptions())[0] == "rscc-base"
