"""What the models of the papers share: blocks, decoder, search, losses."""
