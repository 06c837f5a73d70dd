"""Settings as dataclasses: the dataclass is the schema, a TOML file only overrides its values.

An unknown key, a missing loss weight or a value out of range is a :class:`~rscc.errors.ConfigInvalid`.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rscc.errors import ConfigInvalid
from rscc.settings import build, check, check_choice, check_sizes, is_finite

CONFIG_FOLDER = Path(__file__).parent / "configs"
OBJECTIVES = ("likelihood", "language", "self_critical")
REWARDS = ("cider", "bleu4")
SELECTORS = ("cider", "mask_f1", "perplexity")
SCHEDULES = ("cosine", "paper")
PAPER_SCHEDULE: dict[str, Any] = dict(warmup_steps=0, clip=0.0, bf16=False, ema=0.0, label_smoothing=0.0)
"""What ``train.schedule = "paper"`` sets: nothing of what no paper and no released code has."""
MOST_EPOCHS, MOST_SEED = 100_000, 2**32 - 1
MOST_TILE = 8192
"""Side of a model's input in pixels at most."""
MOST_PARTS, MOST_WORDS = 4096, 2**20
"""Of what a paper's own options count: parts of a network, and words or what stands for them."""
# Pixels that one position of a trunk's last map stands for, along a side.
_STRIDE = 16
# Of what counts things in a config; nobody has more, and compiled code takes no more.
_MOST_COUNTED = 10**9


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one change captioner.

    Attributes:
        paper: key of the model, see ``rscc.models.MODELS``.
        backbone: trunk name, see ``rscc.models.shared.backbone``.
        width: hidden size of encoder and decoder (the papers use 512).
        heads: attention heads.
        word_width: word embedding size (the papers use 300).
        decoder_layers: layers of the caption decoder.
        max_words: longest caption in tokens, begin and end included.
        dropout: dropout probability inside attention blocks and the decoder.
        head_width: channels of the change head.
        pool: side of the squares of the trunk's last map that are averaged to one position.
        grounded: tell the encoder where things lie and what the change head sees there, see
            :mod:`rscc.models.shared.grounding`; for a trunk whose change head is trained.
        options: what only this paper's model knows; checked by the model itself.
    """

    paper: str = "rdd"
    backbone: str = "resnet50"
    width: int = 512
    heads: int = 8
    word_width: int = 300
    decoder_layers: int = 2
    max_words: int = 40
    dropout: float = 0.1
    head_width: int = 64
    pool: int = 1
    grounded: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_sizes(
            self,
            "model",
            width=(1, 16_384),
            heads=(1, 1024),
            word_width=(1, 16_384),
            decoder_layers=(1, 128),
            max_words=(4, 1024),
            head_width=(1, 16_384),
            pool=(1, 64),
        )
        check(self.head_width % 8 == 0, f"model.head_width {self.head_width} is no multiple of 8")
        check(self.width % self.heads == 0, f"model.width {self.width} is no multiple of heads {self.heads}")
        check(0 <= self.dropout < 1, f"model.dropout {self.dropout} is not in 0..1")

    @property
    def position_size(self) -> int:
        """Side in pixels of what one position stands for."""
        return _STRIDE * self.pool


@dataclass(frozen=True)
class DataConfig:
    """Which samples are read.

    Attributes:
        name: the reader, see ``rscc.data.benchmarks.registry.DATASETS``.
        size: side of the square crops in pixels.
        gsd: metres per pixel at which the model sees scenes; crops with masks are resized to it.
        min_count: words rarer than this in the training captions become ``<unk>``.
        trust: values of the ``trust`` field that are read for training; empty reads all. Pairs without
            the field are always read.
        mask_datasets: collections read from folders of change masks; empty reads all.
        augment: random flips (words of direction follow), colour and shift jitter.
        scales: of crops with masks, with ``augment``: the side of ground that one shows is drawn from between
            these multiples of ``size`` pixels, as far as the image reaches.
        one_date: probability that a crop with a mask shows one date twice, so that nothing in it changed.
        reversed: probability that a training pair is shown backwards, with captions that say so; pairs for
            whose captions no true reversal is known never are.
        disturb: strength, 0..1, of haze, tint of the season, blur, coarser resolution, sub-pixel shift and
            JPEG on either date, with ``augment``; of cached features on all views but the first.
    """

    name: str = "levir_cc"
    size: int = 256
    gsd: float = 0.5
    min_count: int = 5
    trust: tuple[str, ...] = ()
    mask_datasets: tuple[str, ...] = ()
    augment: bool = True
    scales: tuple[float, float] = (0.8, 1.25)
    one_date: float = 0.0
    reversed: float = 0.0
    disturb: float = 0.0

    def __post_init__(self) -> None:
        check(0 < self.gsd < math.inf, f"data.gsd {self.gsd} is no number above 0")
        low, high = self.scales
        check(0 < low <= high < math.inf, f"data.scales {self.scales} are no two numbers, the smaller first")
        for name in ("one_date", "reversed", "disturb"):
            check(0 <= getattr(self, name) <= 1, f"data.{name} {getattr(self, name)} is not in 0..1")
        check_sizes(self, "data", size=(32, MOST_TILE), min_count=(0, _MOST_COUNTED))
        check(self.size % _STRIDE == 0, f"data.size {self.size} is no multiple of {_STRIDE} from 32")


@dataclass(frozen=True)
class TrainConfig:
    """The training loop.

    Attributes:
        objective: what is learnt: ``likelihood`` (captions and whatever else the loss weights say),
            ``language`` (the decoder alone learns sentences without images) or ``self_critical`` (CIDEr of
            captions that the model says itself).
        optimizer: ``adam`` or ``adamw``.
        schedule: ``cosine``, ours: linear warm-up over ``warmup_steps`` to the learning rate, then a cosine
            down to ``final_rate`` times it; or ``paper``: a tenth of the rate after every ``decay_epochs``,
            and :data:`PAPER_SCHEDULE`. No paper's text has more of it than Adam, the rate and how long
            (SCORER+CBR Sec. 6.1, DIRL+CCR Sec. 4.2: 10 000 iterations); the steps are in SCORER+CBR's code.
        decay_epochs: of the schedule ``paper``; more than ``epochs`` keep the rate.
        learning_rate: peak rate.
        backbone_rate: factor on the learning rate of the trunk's parameters.
        weight_decay: decoupled for adamw.
        batch_size: pairs in a step.
        epochs: passes over the training split at most.
        patience: epochs without a better validation score before stopping.
        clip: largest norm of the gradient; 0 leaves it as it is.
        bf16: autocast to bfloat16, where the hardware computes it.
        ema: decay of the running average of the weights that is validated and saved; 0 switches it off.
        label_smoothing: of the caption cross-entropy.
        frozen: names of submodules that are not trained.
        text_encoder: what RDD+ACR aligns with, and what an offline retriever has the entities from, see
            :func:`rscc.text.encoders.load_text_encoder`; ``sentence`` is MiniLM, which works offline.
        cache_features: with a frozen trunk, compute its last map once per pair and flip and keep it on disk.
        select: what chooses the checkpoint: ``cider`` (validation captions), ``mask_f1`` (validation masks)
            or, of the objective ``language``, ``perplexity`` (validation sentences; the lower the better).
        keep_start: deliver the start of a fine-tuning where the new model is not surely better, with the
            facts that it learnt on if these are.
        facts: at the end learn the facts that sentences are made of; off, the decoder speaks for itself.
        facts_alone: of a fine-tuning whose start tells facts by the same trunk: these learn on, and the
            captioner stays as it is.
        seed: of everything random.
        workers: processes that read and augment; 0 reads in the training process.
        samples: captions that are drawn per pair (objective ``self_critical``).
        reward: weights of the scores of a drawn caption: ``cider`` (CIDEr-D) and ``bleu4`` (smoothed).
        hallucination: what a drawn caption loses when no reference names any of its objects; a share of that
            when some are named.
    """

    objective: str = "likelihood"
    optimizer: str = "adamw"
    schedule: str = "cosine"
    decay_epochs: int = 15
    learning_rate: float = 2e-4
    final_rate: float = 0.05
    backbone_rate: float = 0.1
    warmup_steps: int = 100
    weight_decay: float = 0.01
    batch_size: int = 32
    epochs: int = 40
    patience: int = 10
    clip: float = 5.0
    bf16: bool = True
    ema: float = 0.0
    label_smoothing: float = 0.0
    frozen: tuple[str, ...] = ()
    text_encoder: str = "sentence"
    cache_features: bool = False
    select: str = "cider"
    keep_start: bool = False
    facts: bool = True
    facts_alone: bool = False
    seed: int = 1
    workers: int = 0
    samples: int = 5
    reward: dict[str, float] = field(default_factory=lambda: {"cider": 1.0})
    hallucination: float = 0.0

    def __post_init__(self) -> None:
        self._take_schedule()
        check(
            self.optimizer in ("adam", "adamw"), f"train.optimizer {self.optimizer!r}: use 'adam' or 'adamw'"
        )
        check(
            self.objective in OBJECTIVES, f"train.objective {self.objective!r}: use {', '.join(OBJECTIVES)}"
        )
        check(self.select in SELECTORS, f"train.select {self.select!r}: use {', '.join(SELECTORS)}")
        check(
            (self.objective == "language") == (self.select == "perplexity"),
            "train.objective 'language' and train.select 'perplexity' belong together; set both or none",
        )
        check_sizes(
            self,
            "train",
            batch_size=(1, 65_536),
            epochs=(1, MOST_EPOCHS),
            patience=(1, _MOST_COUNTED),
            seed=(0, MOST_SEED),
            decay_epochs=(1, _MOST_COUNTED),
            warmup_steps=(0, _MOST_COUNTED),
            workers=(0, 1024),
            samples=(2, 1024),
        )
        check(self.learning_rate > 0, f"train.learning_rate {self.learning_rate} is not above 0")
        for name in ("clip", "final_rate", "backbone_rate", "weight_decay", "hallucination"):
            check(getattr(self, name) >= 0, f"train.{name} {getattr(self, name)} is below 0")
        for name, weight in self.reward.items():
            check(name in REWARDS, f"train.reward.{name} is unknown; use {' and '.join(REWARDS)}")
            check(is_finite(weight) and weight >= 0, f"train.reward.{name} is {weight!r}, no number from 0")
        check(any(self.reward.values()), "train.reward: no score has a weight above 0")
        check(0 <= self.label_smoothing < 1, f"train.label_smoothing {self.label_smoothing} is not in 0..1")
        check(0 <= self.ema < 1, f"train.ema {self.ema} is not in 0..1")
        check(
            not self.cache_features or "backbone" in self.frozen,
            "train.cache_features needs 'backbone' in train.frozen: a moving trunk's features cannot be kept",
        )

    def _take_schedule(self) -> None:
        check(self.schedule in SCHEDULES, f"train.schedule {self.schedule!r}: use {' or '.join(SCHEDULES)}")
        if self.schedule == "cosine":
            return
        for name, value in PAPER_SCHEDULE.items():
            given = getattr(self, name)
            check(
                given in (value, getattr(type(self), name)),
                f"train.{name} is {given!r}, and train.schedule 'paper' has {value!r}; leave one of them out",
            )
            object.__setattr__(self, name, value)


MOST_BEAMS = 20
"""Width of a search at most: what more beams hold is not in the plan of memory, and finds no better words."""


def check_support(support: int) -> None:
    """Raise ConfigInvalid for what is no :attr:`CardConfig.support`."""
    check(0 <= support <= MOST_BEAMS, f"card.support {support} is not in 0..{MOST_BEAMS}")


SENTENCES = {
    "decoder": "its fact heads; its decoder where it has none",
    "land cover": "indices of the scenes' bands, such as NDVI, and not from its decoder",
}
"""What the sentences of a model without fact heads are made of, in words."""


@dataclass(frozen=True)
class CardConfig:
    """What the finished model's card says beyond what the run itself shows.

    Attributes:
        version: of the model.
        description: one line; empty makes one of model, trunk and data.
        gsd_range: finest and coarsest native metres per pixel the model is meant for.
        data: origin and licence of the training data.
        licence: of the weights.
        limits: what the model cannot do, one sentence each.
        support: sentences of a wider search that choose by what they name, see :mod:`rscc.text.consensus`; 20
            at most. Where it is 0, likelihood chooses.
        cost: time and energy that the model takes, with the machine they were measured on.
        sentences: what they are made of without fact heads, a key of :data:`SENTENCES`.
        search_size: see :class:`~rscc.model_folder.ModelCard`.
    """

    version: str = "1"
    description: str = ""
    gsd_range: tuple[float, ...] = (0.2, 1.2)
    data: str = ""
    licence: str = "not stated; mind the licence of the training data"
    limits: tuple[str, ...] = ()
    support: int = 0
    cost: str = ""
    sentences: str = "decoder"
    search_size: int = 0

    def __post_init__(self) -> None:
        check(self.sentences in SENTENCES, f"card.sentences {self.sentences!r}: use {', '.join(SENTENCES)}")
        low_high = len(self.gsd_range) == 2 and 0 < self.gsd_range[0] < self.gsd_range[1] < math.inf
        check(low_high, f"card.gsd_range {self.gsd_range} must be two numbers above 0, the finer first")
        check_support(self.support)


@dataclass(frozen=True)
class Config:
    """One training run: model, data, loop, card, and the weight of every loss term (0 leaves a term out)."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    card: CardConfig = field(default_factory=CardConfig)
    loss: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        searched, size = self.card.search_size, self.data.size
        check(
            searched == 0 or size <= searched <= MOST_TILE,
            f"card.search_size is {searched}; use 0, or data.size ({size}) to {MOST_TILE} pixels",
        )
        side = self.model.position_size
        check(
            size % side == searched % side == 0,
            f"model.pool {self.model.pool} makes positions of {side} pixels; data.size ({size}) and "
            f"card.search_size ({searched}) must be multiples of that",
        )
        for name, weight in self.loss.items():
            check(is_finite(weight), f"loss.{name} is {weight!r}; expected a finite number")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that :func:`config_from_dict` reads back."""
        return dataclasses.asdict(self)


def check_follow(follow: str, difference: str) -> None:
    """Refuse what names neither the text of a paper nor its authors' code, which has no baseline."""
    check_choice("model.options.follow", follow, ("paper", "code"), " or ")
    check(
        follow == "paper" or difference != "subtraction",
        "model.options.follow: the released code has no subtraction; use paper",
    )


def config_from_dict(values: dict[str, Any], where: str = "config") -> Config:
    """Build a :class:`Config` from nested plain values.

    Raises:
        ConfigInvalid: an unknown key, a wrong type or a value out of range; the message says where.
    """
    return build(Config, values, where)


def load_config(path: str | Path) -> Config:
    """Read a TOML file, or a shipped config by its bare name (``rdd_levir_cc``).

    Raises:
        ConfigInvalid: no such file or shipped config, no valid TOML, or values the schema refuses.
    """
    return config_from_dict(_read_toml(path), Path(path).name)


def describes_model(path: str | Path) -> bool:
    """Return whether a config has a table ``model``; one without goes on with the model that it starts from.

    Raises:
        ConfigInvalid: see :func:`load_config`.
    """
    return "model" in _read_toml(path)


def _read_toml(path: str | Path) -> dict[str, Any]:
    path = Path(path)
    shipped = CONFIG_FOLDER / f"{path.name}.toml"
    if not path.suffix and shipped.is_file():
        path = shipped
    if not path.is_file():
        names = ", ".join(sorted(p.stem for p in CONFIG_FOLDER.glob("*.toml")))
        raise ConfigInvalid(f"{path}: no such config file; shipped configs are {names}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    # No text, no TOML, a number of thousands of digits, tables in tables without end.
    except (ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path}: not a TOML file ({error})") from error
