"""Pages, and a real Chromium; nothing is asked of any server."""

from __future__ import annotations

import shutil

import pytest
from pages import DESKTOP, made_archive_page, made_page, squares, usual_rows

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The page of a report."""
    return made_page(tmp_path_factory.mktemp("page"), squares(8, (300, 420)))


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """The page of an archive."""
    return made_archive_page(tmp_path_factory.mktemp("archive"), usual_rows())


@pytest.fixture(params=["made", "archive"])
def either(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of this file."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium of the system: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield opened
        opened.close()


def allowed(url, own):
    """Return whether a request stays in the page, or among the pictures of its folder."""
    beside = own.removesuffix("index.html") + "tiles/"
    return url.partition("#")[0] == own or url.startswith(("data:", "blob:", beside))


@pytest.fixture
def opened(browser):
    """Open a page; afterwards, that it asked for nothing and that nothing went wrong in it."""
    contexts, wrong = [], []

    def open_page(made, hash_="", **values):
        context = browser.new_context(**{"viewport": DESKTOP, "accept_downloads": True, **values})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        own = made.page.as_uri()
        page.on("request", lambda request: None if allowed(request.url, own) else wrong.append(request.url))
        page.goto(own + hash_)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_page
    assert wrong == []
    for context in contexts:
        context.close()
