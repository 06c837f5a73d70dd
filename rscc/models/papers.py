"""The papers' models; :data:`MODELS` maps a config's ``model.paper`` to its class."""

from rscc.errors import ConfigInvalid
from rscc.models.cheers import Cheers
from rscc.models.davir import Davir
from rscc.models.dirl import Dirl
from rscc.models.rdd import Rdd
from rscc.models.scorer import Scorer
from rscc.models.shared.captioner import ChangeCaptioner

MODELS: dict[str, type[ChangeCaptioner]] = {
    "scorer": Scorer,
    "dirl": Dirl,
    "cheers": Cheers,
    "rdd": Rdd,
    "davir": Davir,
}


def model_class(paper: str) -> type[ChangeCaptioner]:
    """Return the class of a paper's model."""
    if paper not in MODELS:
        raise ConfigInvalid(f"model.paper is {paper!r}; known are {', '.join(MODELS)}")
    return MODELS[paper]
