"""Steps in series of scenes of 8 to 40 m per pixel: what changed on a date and stayed so."""
