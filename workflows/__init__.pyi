from .errors import WorkflowError as WorkflowError
from .options import SceneOptions as SceneOptions
from .report.change import Change as Change
from .report.reading import open_report as open_report
from .report.report import Report as Report
from .scene.caption import caption as caption
from .scene.run import caption_scene as caption_scene
