"""The parts that the papers' models share: trunk, blocks, decoder, search, losses."""
