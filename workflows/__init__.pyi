from .errors import WorkflowError as WorkflowError
from .options import SceneOptions as SceneOptions
from .page.scene_report import SceneReport as SceneReport
from .page.scene_report import caption as caption
from .report.change import Change as Change
from .report.report import ChangeReport as ChangeReport
from .scene.run import caption_scene as caption_scene
