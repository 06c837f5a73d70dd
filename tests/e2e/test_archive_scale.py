"""The benchmarks of archives do what they say, on a few pairs: stubs, a bill, two workers beside one."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from archive_cost import Country, PairCost, Prices, bill_table, fit, fit_table
from archive_scale import Load, restart, restart_table, run_tables, simulate
from archive_throughput import CELLS, SEED, compare, write_archive
from large_pair import CELL
from ledger_rates import ledger_rates
from stub_pairs import StubPlan, write_report

from workflows.pairs.rows import PairRow
from workflows.store.folder import REPORT, ArchiveFolder
from workflows.store.ledger import Ledger


def figures(table):
    """Return the last cell of every line by the first."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {cells[0]: cells[-1] for cells in lines if len(cells) > 1}


def test_rates_are_measured_of_everything_a_coordinator_writes(tmp_path):
    rates = {rate.what: rate for rate in ledger_rates(tmp_path, 150, 3)}
    assert rates["pairs fetched, started and done"].count == 150
    assert rates["scenes hashed for the first time"].count == 300
    assert all(rate.seconds > 0 for rate in rates.values())
    with Ledger.reader(tmp_path / "archive") as ledger:
        # The restart found everything as it was.
        assert ledger.counts().done == 150


@pytest.fixture
def archive(tmp_path):
    """An archive of 20 done pairs, which took 2 s, 0.5 s a tile and 0.25 s a change, and a failed one."""
    chance = random.Random(1)
    folder = ArchiveFolder(tmp_path / "archive", durable=False)
    folder.create()
    scenes = [tmp_path / f"{role}.tif" for role in ("before", "after")]
    for scene in scenes:
        scene.write_bytes(bytes(900))
    rows = [PairRow(f"pair-{number}", *map(str, scenes)) for number in range(21)]
    with Ledger.open(folder.path) as ledger:
        ledger.plan([(row, "key") for row in rows], retry_failed=False)
        for row in rows[:-1]:
            tiles, changes = chance.randrange(1, 40), chance.randrange(0, 30)
            folder.install(row.pair, {REPORT: bytes(1000 + 300 * changes)})
            ledger.start(row.pair, 1)
            ledger.done(
                row.pair, worker="1", seconds=2 + 0.5 * tiles + 0.25 * changes, changes=changes, area_m2=1.0,
                tiles=tiles, warnings=(),
            )  # fmt: skip
        ledger.failed(rows[-1].pair, worker="1", seconds=900.0, kind="failed", error="Any", line="any")
    return folder.path


def test_costs_are_fitted_on_the_pairs_that_are_done(archive):
    cost = fit([archive, archive])
    assert (cost.pair, cost.tile, cost.change) == pytest.approx((2, 0.5, 0.25), abs=1e-3)
    assert (cost.written, cost.kept) == pytest.approx((1000, 300), rel=1e-3)
    with Ledger.reader(archive) as ledger:
        tiles = sum(row.tiles for row in ledger.rows("done"))
    assert cost.read == pytest.approx(20 * 1800 / tiles)
    assert cost.pairs == 40 and cost.error < 0.001
    assert figures(fit_table(cost))["a tile"] == "0.5 s"


def test_a_bill_is_the_product_of_what_it_is_made_of():
    # 100 scenes of 100 km2, 2,000 pixels wide: 11 x 11 tiles each, four times a year.
    country = Country(area=10_000, gsd=5.0, visits=4, side=10, changes=0.5)
    cost = PairCost(pair=3, tile=0.5, change=0.2, read=1e6, written=1000, kept=100)
    bill = figures(bill_table(cost, country, Prices(hour=2, terabyte_month=10), workers=10))
    assert country.tiles_of_pair == 121 and country.changes_of_pair == 50
    seconds = 3 + 121 * 0.5 + 50 * 0.2
    assert bill["pairs"] == "400" and bill["tiles"] == "48,400" and bill["changes"] == "20,000"
    assert bill["worker hours"] == f"{400 * seconds / 3600:,.0f}"
    assert bill["days for one visit with 10 workers"] == f"{100 * seconds / 10 / 86400:.1f}"
    assert bill["read by the workers, every scene twice"] == "0.0 TB"
    assert bill["workers, at 2 an hour"] == f"{400 * seconds / 3600 * 2:,.0f}"


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are needed")
def test_throughput_is_measured_of_the_real_command(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    # Painting suburbs takes longer than describing them.
    ground = np.random.default_rng(3).integers(60, 250, (CELLS, 3, 3, CELL, CELL), np.uint8)
    np.savez(tmp_path / f"cells_{SEED}_{CELLS}.npz", cells=ground)
    pairs = write_archive(tmp_path, 2, [256, 600])
    runs = compare(pairs, tmp_path, 1, ["--model", "rscc-small", "--beams", "1"])
    assert [run.workers for run in runs] == [1, 2]
    assert all(run.pairs == 2 and 0 < run.working < run.whole for run in runs)
    assert runs[0].tiles == runs[1].tiles > 2


@pytest.mark.slow
def test_a_small_archive_survives_lost_machines_poison_and_a_killed_coordinator(tmp_path, monkeypatch):
    # Each death of a worker costs the start of another one.
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "1")
    report = str(write_report(tmp_path / "report", 2))
    names = [f"site-00000_{number:02d}" for number in range(40)]
    # Half of it takes longer than the two seconds after which a coordinator notes how far it is.
    plan = StubPlan(report, seconds=1.0, refused=0.1, failed=0.05, poisoned=(names[20],))
    load = Load(pairs=40, workers=6, machines=3, houses=2, plan=plan, lose_every=10.0, kill_at=0.5)
    measured = simulate(tmp_path, load)
    counts = measured.counts
    assert (counts.total, counts.left) == (40, 0)
    (archive,) = tmp_path.glob("archive-*")
    with Ledger.reader(archive) as ledger:
        failed = {row.pair: row.kind for row in ledger.rows("failed")}
    refused = {name for name in names if plan.is_refused(name)}
    assert refused and {pair for pair, kind in failed.items() if kind == "refused"} == refused
    assert failed[names[20]] == "crashed"
    assert measured.lost >= 2
    folders = {path.name for path in (archive / "pairs").iterdir()}
    assert folders == set(names) - set(failed)
    assert not (archive / "work").exists()
    first, second = measured.runs
    assert first["summary"] is None and second["summary"]["done"] == counts.done
    assert 0 < second["moments"]["imported"] < second["moments"]["work began"]
    shown = figures(run_tables(load, measured))
    assert shown["pairs done, failed"] == f"{counts.done}, {counts.failed}"
    assert shown["killed and started again at"] == "50.0% done; then:"


@pytest.mark.slow
def test_a_restart_is_timed_on_an_archive_that_is_nearly_done(tmp_path):
    notes = restart(tmp_path, 300, 0.9, write_report(tmp_path / "report", 3))
    assert (notes["summary"]["skipped_as_done"], notes["summary"]["done"]) == (270, 300)
    # The keys of what was made are those of a run: nothing of it was done again.
    assert notes["calls"]["ledger.start"][0] == 30
    shown = figures(restart_table(300, 0.9, notes))
    assert shown["pairs, of these done before"] == "300, 270 (90.0%)"
    assert 0 < float(shown["first pair handed out after"].split()[0]) < 60
