from .captioner import Captioner as Captioner
from .errors import RsccError as RsccError
from .model_folder import ModelCard as ModelCard
from .model_folder import available_models as available_models
from .structures import Caption as Caption
from .structures import ChangePrediction as ChangePrediction

__version__: str
