import numpy as np
from shapely.geometry import box

from tiling import Window
from workflows.scene.pixels import rasterize_outlines


def test_a_pixel_is_of_an_outline_that_touches_it_or_that_holds_its_centre():
    outline, window = box(12.6, 21.6, 15.4, 23.4), Window(10, 20, 8, 6)
    touched, inside = np.zeros((2, 6, 8), bool)
    touched[1:4, 2:6] = True
    inside[2, 3:5] = True
    np.testing.assert_array_equal(rasterize_outlines([outline], window), touched)
    np.testing.assert_array_equal(rasterize_outlines([outline], window, all_touched=False), inside)
