"""The pairs of a training run, and the source of its batches."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from rscc.config import SENTENCES, Config
from rscc.data.benchmarks.annotations import Benchmark
from rscc.data.benchmarks.change_masks import PREFIX, change_masks, torchgeo_pairs
from rscc.data.benchmarks.registry import DATASETS
from rscc.data.caches import PairCache
from rscc.data.labels import LabelledPair
from rscc.data.pairs import PairRecord, contradicts_itself, truly_changed
from rscc.data.sources import (
    BatchSource,
    CaptionText,
    FeatureCaptionSource,
    ImageCaptionSource,
    MaskSource,
    all_forms,
)
from rscc.errors import DatasetLayoutInvalid, SplitMissing
from rscc.facts.answers import ANSWERS, AROUND, CHANGING
from rscc.model_card import ModelCard
from rscc.models.papers import model_class
from rscc.text.object_classes import named_objects
from rscc.text.parsing import extract_segments
from rscc.text.reversal import reverse_captions
from rscc.text.statements import agreed, read_statement
from rscc.text.vocabulary import Vocabulary, tokenize
from rscc.training.training_run import Report, Run

MIN_TRAINING_PAIRS = 10
MIN_HELD_OUT = 10
HELD_OUT_SHARE = 0.2

Pairs = list[PairRecord]


def learns_the_flag(config: Config, train: Sequence[PairRecord]) -> bool:
    """Return whether P(changed) is learned: its loss has a weight, and there are pairs of both kinds.

    Otherwise, as on data sets in which every pair changed, it must not suppress captions.
    """
    return config.loss.get("changed", 0) > 0 and {True, False} <= {record.changed for record in train}


def read_pairs(run: Run) -> tuple[Pairs, Pairs]:
    """Read training and validation pairs; only fine-tuning holds out pairs without a validation split."""
    config, report = run.config, run.report
    reader, trust = DATASETS[config.data.name], config.data.trust
    if run.whole_start is not None:
        train, val, held_out = read_splits(reader, run.paths.data, trust=trust, seed=config.train.seed)
        train = _without_contradictions(train, report)
        # When facts alone are learned, the flag stays as it is.
        learns_flag = run.learns_facts_alone or learns_the_flag(config, train)
        lines = describe_pairs(train, val, held_out=held_out, learns_flag=learns_flag)
        for line in [*lines, *start_warnings(run.whole_start.folder.card, train)]:
            report(line)
        return train, val
    train, val = reader(run.paths.data, "train", trust=trust), reader(run.paths.data, "val")
    if not run.masks_only:
        train, val = ([record for record in records if record.captions] for records in (train, val))
        train = _without_contradictions(train, report)
    return train, val


def _without_contradictions(records: Sequence[PairRecord], report: Report) -> Pairs:
    """Leave out training pairs whose flag and mask contradict each other; report their number."""
    consistent = [record for record in records if not contradicts_itself(record)]
    if dropped := len(records) - len(consistent):
        report(
            f"left out {dropped} of {len(records)} training pairs: labelled unchanged, but their masks show "
            "changes"
        )
    return consistent


def read_splits(
    reader: Benchmark, data: Path, *, trust: tuple[str, ...] = (), seed: int = 1
) -> tuple[Pairs, Pairs, bool]:
    """Read captioned training and validation pairs; without a validation split, hold out training pairs.

    Returns:
        Training pairs, validation pairs, and whether those were held out.
    """
    train = [record for record in reader(data, "train", trust=trust) if record.captions]
    try:
        val = [record for record in reader(data, "val") if record.captions]
    except SplitMissing:
        val = []
    held_out = not val
    needed = MIN_TRAINING_PAIRS + (MIN_HELD_OUT if held_out else 0)
    if len(train) < needed:
        more = f" and {MIN_HELD_OUT} to hold out, as there is no split val" if held_out else ""
        raise DatasetLayoutInvalid(
            f"{data}: {len(train)} captioned training pairs; fine-tuning needs {MIN_TRAINING_PAIRS}{more}"
        )
    if held_out:
        train, val = hold_out(train, seed=seed)
    return train, val, held_out


def hold_out(records: Sequence[PairRecord], *, seed: int) -> tuple[Pairs, Pairs]:
    """Split off a fixed share of the pairs, at least :data:`MIN_HELD_OUT`, stratified by the change flag.

    The same pairs and seed give the same split, in any order of the pairs.
    """
    count = max(MIN_HELD_OUT, round(HELD_OUT_SHARE * len(records)))
    ordered = sorted(records, key=lambda record: record.id)
    shuffled = [ordered[i] for i in np.random.default_rng(seed).permutation(len(ordered))]
    shuffled.sort(key=truly_changed)
    places = (np.arange(count) + 0.5) * len(shuffled) / count
    chosen = {shuffled[int(place)].id for place in places}
    return (
        [record for record in records if record.id not in chosen],
        [record for record in records if record.id in chosen],
    )


def describe_pairs(
    train: Sequence[PairRecord], val: Sequence[PairRecord], *, held_out: bool, learns_flag: bool
) -> list[str]:
    """Return a line with the numbers of pairs, and a warning if P(changed) cannot be learned from them."""
    origin = ", held out of the training split, as there is no split val" if held_out else ""
    lines = [f"pairs: {_describe_counts(train)} for training; {_describe_counts(val)} for validation{origin}"]
    flags = {truly_changed(record) for record in train}
    if not learns_flag and len(flags) == 1:
        only, other = ("changed", "unchanged") if flags == {True} else ("unchanged", "changed")
        lines.append(
            f"warning: all training pairs are {only}, so the model cannot learn whether anything changed and "
            f"will call nearly every pair {only}; add pairs that are {other}"
        )
    return lines


def _describe_counts(records: Sequence[PairRecord]) -> str:
    changed = sum(map(truly_changed, records))
    return f"{len(records)} ({changed} changed, {len(records) - changed} unchanged)"


def start_warnings(start: ModelCard, records: Sequence[PairRecord]) -> list[str]:
    """Return warnings about pairs that suit a start badly: another resolution, or sentences it never uses."""
    low, high = start.gsd_range
    outside = sum(record.gsd is not None and not low <= record.gsd <= high for record in records)
    lines = []
    if outside:
        lines.append(
            f"warning: {outside} of {len(records)} training pairs are outside the {low:g} to {high:g} m per "
            f"pixel that {start.name} is made for; start from another model, or resample them"
        )
    if start.sentences != "decoder":
        lines.append(
            f"warning: sentences in reports of {start.name} come from {SENTENCES[start.sentences]}: "
            "captions train only the sentences of --no-ground"
        )
    return lines


def no_change_prefixes(records: Sequence[PairRecord]) -> list[list[str]]:
    """Find the shortest prefixes of captions of unchanged pairs that captions of changed pairs lack.

    A prefix counts as lacking if fewer than one in a thousand captions of changed pairs has it, because a few
    captions are wrong.
    """
    changed = [tuple(tokenize(c)) for r in records if r.changed for c in r.captions]
    unchanged = {tuple(tokenize(c)) for r in records if r.changed is False for c in r.captions}
    counts = Counter(words[:length] for words in changed for length in range(1, len(words) + 1))
    prefixes = set()
    for words in unchanged:
        for length in range(1, len(words) + 1):
            if counts[words[:length]] * 1000 < len(changed):
                prefixes.add(words[:length])
                break
    return [list(words) for words in sorted(prefixes)]


def no_change_runs(records: Sequence[PairRecord], known: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """Find the shortest runs of up to three words that mean "no change" anywhere in a caption, as "same".

    At least one in ten captions of unchanged pairs has them, and fewer than one in a thousand captions of
    changed pairs, in either order of the dates. They are forbidden in use, not in training: a decoder whose
    prefixes are forbidden could still say "the road is the same as before".

    Below a thousand captions of changed pairs nothing is counted; then the runs ``known`` of the start model
    are kept, except those that one of these captions has.
    """
    changed = [_runs(tokenize(c)) for r in records if r.changed for c in (*r.captions, *r.reversed_captions)]
    if len(changed) < 1000:
        return [list(run) for run in known if not any(tuple(run) in runs for runs in changed)]
    unchanged = [_runs(tokenize(c)) for r in records if r.changed is False for c in r.captions]
    frequent, rare = (Counter(chain.from_iterable(captions)) for captions in (unchanged, changed))
    shortest: list[tuple[str, ...]] = []
    for run in sorted(frequent, key=lambda run: (len(run), run)):
        means_no_change = frequent[run] * 10 >= len(unchanged) and rare[run] * 1000 < len(changed)
        if means_no_change and _runs(run).isdisjoint(shortest):
            shortest.append(run)
    return [list(run) for run in shortest]


def _runs(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return all runs of one to three words."""
    return {tuple(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1)}


def training_parts(run: Run, train: Sequence[PairRecord]) -> list[Pairs]:
    """Return the pairs of the data set, then those of each folder of ``run.paths.also``.

    Captions for swapped dates are added if ``data.reversed`` is above 0.
    """
    data = run.config.data
    parts = [list(train)]
    for folder in run.paths.also:
        records = DATASETS[data.name](folder, "train", trust=data.trust)
        part = [record for record in records if record.captions or run.masks_only]
        if not part:
            raise DatasetLayoutInvalid(f"{folder}: no training pair has a caption; leave this folder out")
        parts.append(part)
    if data.reversed > 0:
        parts = [
            [replace(record, reversed_captions=reverse_captions(record.captions)) for record in part]
            for part in parts
        ]
    return parts


def every_caption(parts: Sequence[Sequence[PairRecord]]) -> list[str]:
    """Return all captions of all pairs, in both orders of the dates, with repetitions."""
    records = chain.from_iterable(parts)
    return [caption for record in records for caption in (*record.captions, *record.reversed_captions)]


def batch_source(
    run: Run, train: Sequence[PairRecord], vocabulary: Vocabulary, cache: PairCache
) -> BatchSource:
    """Return the source of a run's batches; ``cache`` is of all training pairs ``train``."""
    config = run.config
    if run.masks_only:
        return _mask_source(run, train)
    kind = FeatureCaptionSource if cache.maps else ImageCaptionSource
    return kind(train, caption_text(config, train, vocabulary), config, cache)


def caption_text(config: Config, train: Sequence[PairRecord], vocabulary: Vocabulary) -> CaptionText:
    """Return what turns the captions of training pairs into the fields of a batch."""
    segments = None
    if any(config.loss.get(term, 0) > 0 for term in model_class(config.model.paper).text_terms):
        forms = all_forms(train)
        parsed = zip(forms, extract_segments(forms), strict=True)
        segments = {caption: (" and ".join(one.nouns), " and ".join(one.verbs)) for caption, one in parsed}
    return CaptionText(vocabulary, max_words=config.model.max_words, segments=segments)


def _mask_source(run: Run, train: Sequence[PairRecord]) -> MaskSource:
    data = run.config.data
    records = [record for record in train if record.mask is not None]
    for folder in run.paths.masks:
        if str(folder).startswith(PREFIX):
            records += torchgeo_pairs(str(folder), size=data.size)
        else:
            records += change_masks(folder, datasets=data.mask_datasets, size=data.size)
    if not records:
        raise DatasetLayoutInvalid(
            f"{run.paths.data}: no training pair has a mask; give folders of change masks with --masks"
        )
    return MaskSource(records, run.config)


def fact_labels(records: Sequence[PairRecord]) -> np.ndarray:
    """Return (N, len(ANSWERS)) float32 in {0, 1}: facts that two references state, or the only one."""
    names = iter(named_objects(caption for record in records for caption in record.captions))
    labels = np.zeros((len(records), len(ANSWERS)), np.float32)
    for row, record in zip(labels, records, strict=True):
        least = min(2, len(record.captions))
        named = agreed([next(names).classes for _ in record.captions], least)
        if not truly_changed(record):
            continue
        statements = [read_statement(caption) for caption in record.captions]
        came, gone = (agreed([getattr(one, way) for one in statements], least) for way in ("came", "gone"))
        row[:] = _true_answers(came, gone, named)
    return labels


def labelled_facts(pairs: Sequence[LabelledPair]) -> np.ndarray:
    """Return (N, len(ANSWERS)) float32 in 0..1: the share of its readers who state each fact of a pair."""
    labels = np.zeros((len(pairs), len(ANSWERS)), np.float32)
    for row, pair in zip(labels, pairs, strict=True):
        row[:] = np.mean([_true_answers(one.came, one.gone, one.named) for one in pair.readings], axis=0)
    return labels


def _true_answers(came: Collection[str], gone: Collection[str], named: Collection[str]) -> list[bool]:
    return [
        *(name in came for name in CHANGING),
        *(name in gone for name in CHANGING),
        *(name in named for name in AROUND),
    ]
