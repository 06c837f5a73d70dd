"""The command ``rscc status``."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from workflows.cli.options import OverwriteOption, argument, option, switch, takes_options
from workflows.cli.terminal import Terminal, print_text
from workflows.errors import OptionInvalid
from workflows.printable import printable_json, printable_lines


@takes_options()
def status(
    archive: Annotated[Path, argument("ARCHIVE", "Folder that rscc batch or rscc monitor writes")],
    watch: Annotated[bool, switch("--watch", "Refresh until all is done or Ctrl-C is pressed")] = False,
    every: Annotated[
        float, option("Time between two refreshes of --watch", "SECONDS", min=0.1, max=86_400)
    ] = 2.0,
    failed: Annotated[bool, switch("--failed", "List why pairs failed")] = False,
    warnings: Annotated[bool, switch("--warnings", "List the warnings of finished pairs")] = False,
    html: Annotated[
        Path | None, option("Write a web page: pairs on a map, totals, times, failures", "FILE")
    ] = None,
    overwrite: OverwriteOption = False,
    *,
    terminal: Terminal,
) -> None:
    """Show the progress of an archive, or the state of a monitor, without disturbing its run."""
    if is_monitor(archive):
        if watch or failed or warnings or html is not None:
            raise OptionInvalid(
                f"{archive}: is a monitor, which has no --watch, --failed, --warnings and --html"
            )
        from workflows.cli.monitor import state_of, state_text

        state = state_of(archive)
        terminal.result(state_text(state), state)
        return
    if html is not None:
        _write_page(archive, html, overwrite, watch)
    with _screen(is_redrawn=watch and not terminal.as_json and sys.stdout.isatty()) as show:
        while True:
            facts, text, is_finished = _look(archive, failed, warnings)
            if html is not None:
                facts["html"] = str(html)
                text = f"{text}\npage     {html}"
            show(printable_json(facts) if terminal.as_json else text)
            if not watch or is_finished:
                break
            time.sleep(every)


def is_monitor(path: Path) -> bool:
    """Return whether a folder is one of ``rscc monitor``."""
    from workflows.monitor.folder import MonitorFolder

    return MonitorFolder(path).is_monitor()


def _look(archive: Path, failed: bool, warnings: bool) -> tuple[dict[str, Any], str, bool]:
    """Return the present state as plain values and as text, and whether the archive is finished."""
    from workflows.archive.reasons import failure_reasons, warning_reasons
    from workflows.archive.state import read_state
    from workflows.archive.status import archive_status
    from workflows.cli.status_text import reasons_text, status_text

    result = archive_status(archive)
    facts, texts = {"archive": str(archive), **asdict(result)}, []
    facts["counts"] |= {"total": result.counts.total}
    if failed:
        with read_state(archive) as state:
            reasons = failure_reasons(state.index.rows("failed"))
        facts["reasons"] = [asdict(reason) for reason in reasons]
        texts.append(reasons_text(reasons) or "no failures")
    if warnings:
        with read_state(archive) as state:
            reasons = warning_reasons(state.index.rows("done", warned=True))
        facts["warnings"] = [asdict(reason) for reason in reasons]
        texts.append(reasons_text(reasons) or "no warnings")
    is_finished = not (result.counts.pending or result.at_work)
    return facts, "\n".join(texts) or status_text(archive, result), is_finished


def _write_page(archive: Path, page: Path, overwrite: bool, watch: bool) -> None:
    from workflows.archive.overview import archive_overview
    from workflows.report.page.archive import write_archive_page
    from workflows.report.page.template import check_page_name

    if watch:
        raise OptionInvalid("--html writes one page; leave --watch out")
    check_page_name(page, overwrite)
    write_archive_page(archive_overview(archive, page), page, overwrite)


@contextmanager
def _screen(is_redrawn: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a text below the previous one, or redraws it in place."""
    if not is_redrawn:
        yield print_text
        return
    from rich.live import Live
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        yield lambda text: live.update(Text(printable_lines(text.split("\n"))), refresh=True)
