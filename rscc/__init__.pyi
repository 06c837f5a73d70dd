from workflows import Change as Change
from workflows import Report as Report
from workflows import caption as caption
from workflows import open_report as open_report
from workflows.monitor.monitor import monitor as monitor

from .captioner import Captioner as Captioner
from .errors import RsccError as RsccError
from .model_card import ModelCard as ModelCard
from .model_folder import available_models as available_models
from .structures import Caption as Caption
from .structures import ChangePrediction as ChangePrediction

__version__: str
