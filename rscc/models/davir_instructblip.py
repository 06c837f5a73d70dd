"""The large size of DAVIR, the paper's, made of the parts of :mod:`rscc.models.instructblip`.

The ViT is the trunk and the language model the decoder; this module connects them.
"""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from rscc.models.davir_compact import Encoded, QFormerOutput, patches_to_compare
from rscc.models.instructblip import InstructBlipFusion, unpack
from rscc.models.language_model_decoder import LanguageModelDecoder
from rscc.structures import PairView


class InstructBlipParts(nn.Module):
    """Counterpart of :class:`~rscc.models.davir_compact.CompactParts` for the large size."""

    def __init__(self, *, fusion: InstructBlipFusion, decoder: LanguageModelDecoder, instruction: str):
        """Use the Q-Former; ``instruction`` is the [Prompt] of Eq. 10."""
        super().__init__()
        self.fusion = fusion
        self.instruction = instruction
        self._decoder = [decoder]  # a list: the captioner registers it

    def encode(self, pair: PairView) -> Encoded:
        """Eq. 4-5, unpacked from the trunk's maps."""
        before, attention_before = unpack(pair.maps_before)
        after, attention_after = unpack(pair.maps_after)
        return Encoded(before, after, attention_before, attention_after, patches_to_compare(pair))

    def ask(
        self, encoded: Encoded, entities: Tensor | None, names: Callable[[], list[tuple[str, ...]]]
    ) -> QFormerOutput:
        """Eq. 10-11 from the entities' names, which may be empty; their features are not used."""
        prompts = [self.prompt(some) for some in names()]
        visual = self.fusion(encoded.before, encoded.after, prompts)
        return QFormerOutput(visual, self._decoder[0].prefix(visual, prompts))

    def prompt(self, names: Sequence[str]) -> str:
        """Eq. 10: the instruction, and after "Entity:" the names."""
        return f"{self.instruction} Entity: {', '.join(names)}" if names else self.instruction
