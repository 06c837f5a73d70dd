"""Tile grids drawn by chance."""

from hypothesis import strategies as st

from tiling import TileGrid, Window


@st.composite
def grids(draw, *, areas=True):
    """A grid over a small scene, perhaps of an area that sticks out of it."""
    tile, width, height = (draw(st.integers(1, most)) for most in (30, 70, 70))
    area = None
    if areas and draw(st.booleans()):
        col, row = draw(st.integers(-5, width - 1)), draw(st.integers(-5, height - 1))
        area = Window(
            col, row, draw(st.integers(max(1, 1 - col), 80)), draw(st.integers(max(1, 1 - row), 80))
        )
    anchor = (draw(st.integers(-500, 500)), draw(st.integers(-500, 500)))
    overlap = draw(st.integers(0, tile - 1))
    least = draw(st.integers(overlap + 1, tile))
    return TileGrid(width, height, tile=tile, overlap=overlap, anchor=anchor, area=area, least=least)
