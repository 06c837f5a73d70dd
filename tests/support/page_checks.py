"""What pages are opened with, and what is asked of each of them."""

import json
import re
from pathlib import Path
from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}

CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("aside *, #card *, #tools *")]
    .filter((one) => one.checkVisibility())
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((one) => !one.disabled && getComputedStyle(one).opacity === "1")
    .map((one) => {
      const pair = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
      return [one.tagName, one.className, (pair[0] + 0.05) / (pair[1] + 0.05)];
    })
    .filter(([, , contrast]) => contrast < 4.5);
}"""


def nameless(page: Any) -> int:
    """Return how many elements that can be pressed have no name."""
    return page.locator("button:visible, input:visible, select:visible, a:visible").evaluate_all(
        "all => all.filter((one) => !(one.ariaLabel || one.labels?.length || one.textContent.trim())).length"
    )


def on_screen(page: Any, size: tuple[int, int], x: float, y: float) -> tuple[float, float]:
    """Return where a place of a map of ``size`` (width, height) lies while all of it is shown."""
    frame = page.locator("#ground").bounding_box()
    zoom = min(frame["width"] / size[0], frame["height"] / size[1])
    return frame["width"] / 2 + (x - size[0] / 2) * zoom, frame["height"] / 2 + (y - size[1] / 2) * zoom


class PageTexts:
    """What stands in a page."""

    page: Path

    @property
    def text(self) -> str:
        """The page."""
        return self.page.read_text(encoding="utf-8")

    def values(self, name: str) -> Any:
        """Return the data that the page has under a name."""
        found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', self.text, re.S)
        assert found is not None
        return json.loads(found[1])
