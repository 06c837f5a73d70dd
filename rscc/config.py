"""Settings of a training run as dataclasses, which are the schema of the TOML files.

An unknown key, a missing loss weight or a value out of range raises :class:`~rscc.errors.ConfigInvalid`.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from rscc.settings import check, check_choice, check_sizes, of_type

OBJECTIVES = ("likelihood", "language")
SELECTORS = ("cider", "mask_f1", "perplexity")
SCHEDULES = ("cosine", "paper")
PROTOCOLS = ("rscc", "paper")
PAPER_SCHEDULE: dict[str, Any] = dict(warmup_steps=0, clip=0.0, bf16=False, ema=0.0, label_smoothing=0.0)
"""Settings of ``train.schedule = "paper"``: no additions to the papers and their released code."""
MOST_EPOCHS, MOST_SEED = 100_000, 2**32 - 1
MOST_TILE = 8192
"""Maximum side of a model's input in pixels."""
MOST_PARTS, MOST_WORDS = 4096, 2**20
"""Maxima of counts in a paper's options: parts of a network, and words."""
# Side in pixels of a position of a trunk's last map.
_STRIDE = 16
# Maximum of other counts in a config: compiled code overflows beyond it.
_MOST_COUNTED = 10**9


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one change captioner.

    Attributes:
        paper: key of the model, see ``rscc.models.papers.MODELS``.
        backbone: trunk name, see ``rscc.models.trunks.backbone``.
        width: hidden size of encoder and decoder (the papers use 512).
        word_width: word embedding size (the papers use 300).
        max_words: longest caption in tokens, begin and end included.
        pool: side of the squares of the trunk's last map that are averaged to one position.
        grounded: add positions and the change head's map to the encoder's input, see
            :class:`rscc.models.shared.change_detector.Grounding`; for a trunk with a trained change head.
        options: options of the paper's model, which checks them.
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
        check(self.head_width % 8 == 0, f"model.head_width {self.head_width} is not a multiple of 8")
        check(
            self.width % self.heads == 0, f"model.width {self.width} is not a multiple of heads {self.heads}"
        )
        check(0 <= self.dropout < 1, f"model.dropout {self.dropout} is not in 0..1")

    @property
    def position_size(self) -> int:
        """Side in pixels of one position."""
        return _STRIDE * self.pool


@dataclass(frozen=True)
class DataConfig:
    """The data set and its augmentation.

    Attributes:
        name: the reader, see ``rscc.data.benchmarks.registry.DATASETS``.
        size: side of the square crops in pixels.
        gsd: metres per pixel of the model's input; crops with masks are resampled to it.
        min_count: words rarer than this in the training captions become ``<unk>``.
        trust: values of the ``trust`` field that are used for training; empty for all. Pairs without the
            field are always used.
        mask_datasets: collections used from folders of change masks; empty for all.
        augment: random flips (words of direction follow), colour and shift jitter.
        scales: of crops with masks, with ``augment``: their side on the ground is drawn between these
            multiples of ``size`` pixels, limited by the image.
        one_date: probability that a crop with a mask shows one date twice, so that nothing changed in it.
        reversed: probability that the dates of a training pair are swapped, with reversed captions; pairs
            whose captions cannot be reversed are never swapped.
        disturb: strength, 0..1, of haze, seasonal tint, blur, coarser resolution, sub-pixel shift and JPEG on
            either date, with ``augment``; of cached features on all views but the first.
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
        check(0 < self.gsd < math.inf, f"data.gsd {self.gsd} is not a number above 0")
        low, high = self.scales
        check(0 < low <= high < math.inf, f"data.scales {self.scales} must be two numbers, the smaller first")
        for name in ("one_date", "reversed", "disturb"):
            check(0 <= getattr(self, name) <= 1, f"data.{name} {getattr(self, name)} is not in 0..1")
        check_sizes(self, "data", size=(32, MOST_TILE), min_count=(0, _MOST_COUNTED))
        check(self.size % _STRIDE == 0, f"data.size {self.size} is not a multiple of {_STRIDE} from 32")


@dataclass(frozen=True)
class TrainConfig:
    """The training loop.

    Attributes:
        objective: ``likelihood`` (captions and all terms with a loss weight) or ``language`` (the decoder
            alone learns sentences, without images).
        optimizer: ``adam`` or ``adamw``.
        schedule: ``cosine``, ours: linear warm-up over ``warmup_steps`` to the learning rate, then a cosine
            down to ``final_rate`` times it; or ``paper``: a tenth of the rate after every ``decay_epochs``,
            and :data:`PAPER_SCHEDULE`. The papers specify only Adam, rate and duration (SCORER+CBR Sec. 6.1,
            DIRL+CCR Sec. 4.2: 10 000 iterations); the steps are in SCORER+CBR's code.
        protocol: ``rscc``, or ``paper``: only the caption loss and the paper's own terms, without the change
            head, P(changed) and augmentation, so that the decoder itself states whether anything changed.
        decay_epochs: of the schedule ``paper``; more than ``epochs`` for a constant rate.
        backbone_rate: factor on the learning rate of the trunk's parameters.
        patience: epochs without a better validation score before stopping.
        clip: maximum norm of the gradient; 0 disables clipping.
        bf16: autocast to bfloat16, where the hardware supports it.
        ema: decay of the running average of the weights that is validated and saved; 0 disables it.
        frozen: names of submodules that are not trained.
        text_encoder: for the alignment of RDD+ACR and the entities of an offline retriever, see
            :func:`rscc.text.encoders.load_text_encoder`; ``sentence`` is MiniLM, which works offline.
        cache_features: with a frozen trunk, compute its last map once per pair and flip and store it on disk.
        select: criterion for the checkpoint: ``cider`` (validation captions), ``mask_f1`` (validation masks)
            or, for the objective ``language``, ``perplexity`` (validation sentences; lower is better).
        keep_start: export the start of a fine-tuning if the new model is not significantly better, with the
            new fact heads if these are.
        facts: train fact heads at the end, which the sentences are then made of; otherwise the decoder writes
            them.
        facts_alone: in a fine-tuning whose start has fact heads on the same trunk, train only these.
        workers: processes that read and augment; 0 for the training process itself.
    """

    objective: str = "likelihood"
    optimizer: str = "adamw"
    schedule: str = "cosine"
    protocol: str = "rscc"
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

    def __post_init__(self) -> None:
        self._take_schedule()
        check_choice("train.protocol", self.protocol, PROTOCOLS, " or ")
        check_choice("train.optimizer", self.optimizer, ("adam", "adamw"), " or ")
        check_choice("train.objective", self.objective, OBJECTIVES)
        check_choice("train.select", self.select, SELECTORS)
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
        )
        check(self.learning_rate > 0, f"train.learning_rate {self.learning_rate} is not above 0")
        for name in ("clip", "final_rate", "backbone_rate", "weight_decay"):
            check(getattr(self, name) >= 0, f"train.{name} {getattr(self, name)} is below 0")
        check(0 <= self.label_smoothing < 1, f"train.label_smoothing {self.label_smoothing} is not in 0..1")
        check(0 <= self.ema < 1, f"train.ema {self.ema} is not in 0..1")
        check(
            not self.cache_features or "backbone" in self.frozen,
            "train.cache_features needs 'backbone' in train.frozen: features of a trained trunk change",
        )

    def _take_schedule(self) -> None:
        check_choice("train.schedule", self.schedule, SCHEDULES, " or ")
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
"""Maximum width of a beam search: wider ones need more memory than planned and find no better words."""


SENTENCES = {
    "decoder": "its fact heads; its decoder where it has none",
    "land cover": "indices of the scenes' bands, such as NDVI, and not from its decoder",
}
"""Sources of the sentences of a model without fact heads, in words."""


@dataclass(frozen=True)
class CardConfig:
    """Fields of the trained model's card that a run does not measure.

    Attributes:
        description: one line; by default made of model, trunk and data.
        gsd_range: finest and coarsest native metres per pixel the model is meant for.
        support: width of the beam search that ranks by agreement, at most 20, see
            :mod:`rscc.models.shared.generation`; 0 ranks by likelihood.
        cost: time and energy that the model takes, with the machine of the measurement.
        sentences: source of the sentences without fact heads, a key of :data:`SENTENCES`.
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
        check_choice("card.sentences", self.sentences, SENTENCES)
        low_high = len(self.gsd_range) == 2 and 0 < self.gsd_range[0] < self.gsd_range[1] < math.inf
        check(low_high, f"card.gsd_range {self.gsd_range} must be two numbers above 0, the finer first")
        check_sizes(self, "card", support=(0, MOST_BEAMS))


@dataclass(frozen=True)
class Config:
    """One training run: model, data, loop, card, and a weight for every loss term (0 omits a term)."""

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
        if self.train.protocol == "paper":
            object.__setattr__(self, "loss", {**self.loss, "changed": 0.0, "change_mask": 0.0})
            object.__setattr__(self, "data", dataclasses.replace(self.data, augment=False))
        for name, weight in self.loss.items():
            of_type(float, weight, f"loss.{name}")


def check_follow(follow: str, difference: str, *codes: str) -> None:
    """Check an option that chooses between a paper and its authors' ``codes``, which have no baseline."""
    check_choice("model.options.follow", follow, ("paper", *codes), " or ")
    check(
        follow == "paper" or difference != "subtraction",
        "model.options.follow: the released code has no subtraction; use paper",
    )
