"""Training pairs that are made: of masks, of one date disturbed, of buildings put in or taken out."""
