"""Pairs in a ledger, and what a coordinator says of them."""

from workflows.pairs.rows import PairRow


def pairs(*names, key="k"):
    return [(PairRow(name, f"/scenes/{name}_1.tif", f"/scenes/{name}_2.tif"), key) for name in names]


def pair_of(ledger, name):
    return next(row for row in ledger.rows() if row.pair == name)


def finish(ledger, name, changes=2):
    ledger.start(name, pair_of(ledger, name).attempts + 1)
    ledger.done(name, "w1", 1.25, changes, 40.5, 9, ["dark"])


def fail(ledger, name, kind="failed"):
    ledger.start(name, pair_of(ledger, name).attempts + 1)
    ledger.failed(name, "w1", 0.5, kind, "NotARaster", f"{name}.tif: this is not a raster")


def states(ledger):
    return {row.pair: row.state for state in (None, "dropped") for row in ledger.rows(state)}
