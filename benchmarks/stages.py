"""Where the time of one ``rscc caption`` goes, measured from outside; prints one line of JSON.

    python benchmarks/stages.py BEFORE AFTER --output REPORT [--option WORD ...]

Runs the command with named functions wrapped by clocks. A stage has the seconds of the thread that runs the
command, without those of the stages that it calls; what other threads did meanwhile, such as reading ahead,
is told apart, in seconds of the processor. :data:`STAGES` is the one place that knows the names; what is no
longer there is told as ``missing``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turns import Pair, in_process, pair_parser


def _reading(reader: Any, *_: Any) -> str:
    """Name the reading of one date: warped where its grid is not the working one."""
    return "warp" if getattr(getattr(reader, "layer", None), "offset", 0) is None else "read"


Named = str | Callable[..., str]
STAGES: tuple[tuple[Named, str], ...] = (
    ("open", "tiling.pair:ScenePair.open"),
    (_reading, "tiling.layer:LayerReader.read"),
    ("stretch", "tiling.radiometry:Table.apply"),
    ("trunk", "rscc.models.shared.backbone:Backbone.forward"),
    ("trunk", "rscc.inference.int8:Int8Trunk.forward"),
    ("head", "rscc.models.shared.blocks:ChangeHead.forward"),
    ("head", "rscc.inference.int8_head:Int8ChangeHead.forward"),
    ("encoder", "rscc.models.shared.captioner:ChangeCaptioner.encode_last_maps"),
    ("facts", "rscc.inference.fact_heads:FactHeads.maps"),
    ("model, rest", "rscc.captioner:Captioner.search"),
    ("model, rest", "rscc.captioner:Captioner.survey"),
    ("waiting", "workflows.scene.probability:_Stretch.predict"),
    ("mosaic", "tiling.mosaic:ChangeMosaic.add"),
    ("mosaic", "tiling.mosaic:ChangeMosaic.finish"),
    ("outlines", "tiling.polygons:Polygonizer.add"),
    ("outlines", "tiling.polygons:Polygonizer.finish"),
    ("outlines", "workflows.scene.run:SceneRun.events"),
    ("words", "workflows.scene.run:SceneRun.describe"),
    ("record", "workflows.scene.run:SceneRun.report"),
    ("write", "workflows.report.report:ChangeReport.write"),
)
"""What is timed: the name of the stage, and the method, as ``module:Class.method``."""
WHOLE = frozenset({"words"})
"""Stages that keep what they call: the words' share has the reading and the trunk of their crops."""


class Clocks:
    """Seconds by stage.

    Attributes:
        here: seconds by stage of the thread that made the clocks.
        elsewhere: seconds of the processor by stage of all other threads.
        missing: names that could not be wrapped.
    """

    def __init__(self) -> None:
        self.here: dict[str, float] = defaultdict(float)
        self.elsewhere: dict[str, float] = defaultdict(float)
        self.missing: list[str] = []
        self._thread, self._local, self._lock = threading.get_ident(), threading.local(), threading.Lock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what happens inside to a stage, but for the stages inside of it."""
        inside: list[list[Any]] = self._local.__dict__.setdefault("inside", [])
        if any(outer in WHOLE for outer, _ in inside):
            yield
            return
        here = threading.get_ident() == self._thread
        clock, kept = (time.perf_counter, self.here) if here else (time.thread_time, self.elsewhere)
        inside.append([name, 0.0])
        begin = clock()
        try:
            yield
        finally:
            took = clock() - begin
            _, others = inside.pop()
            if inside:
                inside[-1][1] += took
            with self._lock:
                kept[name] += took - others

    def wrap(self, stages: Sequence[tuple[Named, str]] = STAGES) -> None:
        """Put a clock around each method, for the rest of this process."""
        for name, path in stages:
            module, _, dotted = path.partition(":")
            owner_name, _, method = dotted.partition(".")
            try:
                owner = getattr(importlib.import_module(module), owner_name)
                plain = inspect.getattr_static(owner, method)
            except (ImportError, AttributeError):
                self.missing.append(path)
                continue
            if isinstance(plain, classmethod):
                setattr(owner, method, classmethod(self._timed(name, plain.__func__)))
            else:
                setattr(owner, method, self._timed(name, plain))

    def _timed(self, name: Named, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            stage = name if isinstance(name, str) else name(*args)
            with self.stage(stage):
                result = function(*args, **kwargs)
            return self._each(stage, result) if inspect.isgenerator(result) else result

        return timed

    def _each(self, stage: str, items: Iterator[Any]) -> Iterator[Any]:
        """Yield what a generator yields; its own time counts, not that of who takes it."""
        while True:
            with self.stage(stage):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item


def timed_run(
    pair: Pair, output: Path, load: Callable[[str, str], Any], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Run the command with clocks in this process.

    Returns:
        ``loaded`` and ``ended``: seconds since 1970 at which the model was there and the report written;
        ``here``, ``elsewhere`` and ``missing`` of :class:`Clocks`; ``run``: what the command printed.
    """
    clocks, loaded = Clocks(), 0.0

    def factory(model: str, device: str) -> Any:
        nonlocal loaded
        captioner = load(model, device)
        if not loaded:
            clocks.wrap()
            loaded = time.time()
        return captioner

    run = in_process(pair, output, factory, options)
    return {
        "loaded": loaded,
        "ended": time.time(),
        "here": dict(clocks.here),
        "elsewhere": dict(clocks.elsewhere),
        "missing": clocks.missing,
        "run": run,
    }


def main() -> None:
    """Run the command and print where its time went."""
    parser = pair_parser(__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[], help="further word for rscc caption")
    asked = parser.parse_args()

    def load(model: str, device: str) -> Any:
        from rscc.captioner import load_captioner

        return load_captioner(model, device)

    print(json.dumps(timed_run(Pair.of(asked.before, asked.after), asked.output, load, asked.option)))


if __name__ == "__main__":
    main()
