"""Attribute-guided tokens of RDD+ACR: prompt, frozen text encoder, adapter of three layers.

The paper says that learnable prompts are 4 tokens before the segments and cites both CoOp and its
conditional form; here they are CoOp's: one set of vectors per module, hence one for nouns and one for verbs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rscc.text.encoders import TextEncoder, insert_prompt

PROMPT_TOKENS = 4


class AttributeTokens(nn.Module):
    """Maps the joined noun (or verb) segments of B captions to tokens (B, width).

    The text encoder is frozen and may be shared, so it stays outside the module's own parameters and
    saved weights; it follows the adapter's device. Without learnable prompts its vector of a text never
    changes and is stored after the first time.

    Attributes:
        prompt: one of :data:`~rscc.text.parsing.PROMPTS`.
        prompt_vectors: (4, D) parameter, None unless ``learnable``.
        adapter: three fully connected layers.
    """

    def __init__(self, *, encoder: TextEncoder, width: int, prompt: str = "learnable", template: str = ""):
        """Build the module; ``template`` is put before the segments when ``prompt`` is ``fixed``."""
        super().__init__()
        self.prompt, self.template = prompt, template
        # A tuple hides the encoder from nn.Module: its frozen weights stay out of every checkpoint.
        self._encoder = (encoder,)
        self.prompt_vectors: nn.Parameter | None = None
        if prompt == "learnable":
            self.prompt_vectors = nn.Parameter(0.02 * torch.randn(PROMPT_TOKENS, encoder.token_width))
        self.adapter = nn.Sequential(
            nn.Linear(encoder.width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
        )
        self._vectors: dict[str, Tensor] = {}

    @property
    def encoder(self) -> TextEncoder:
        """The frozen text encoder."""
        return self._encoder[0]

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return one token per text, (B, width); equal texts are encoded once."""
        device = next(self.adapter.parameters()).device
        if self.encoder.device != device:
            self.encoder.to(device)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        if self.prompt_vectors is not None:
            words = self.encoder.embed_tokens(list(numbers), room=PROMPT_TOKENS)
            vectors = self.encoder.encode_embeddings(*insert_prompt(*words, self.prompt_vectors))
        else:
            vectors = self._remembered(list(numbers), device)
        tokens = self.adapter(vectors)  # (unique, width)
        return tokens[torch.tensor([numbers[text] for text in texts], device=device)]

    def _remembered(self, texts: list[str], device: torch.device) -> Tensor:
        new = [text for text in texts if text not in self._vectors]
        if new:
            prompted = [f"{self.template} {text}".strip() for text in new] if self.prompt == "fixed" else new
            # Kept vectors must be usable in a later training step, whatever mode the first call runs in.
            with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
                vectors = self.encoder.encode(prompted).float()
            self._vectors.update(zip(new, vectors.cpu().unbind(), strict=True))
        return torch.stack([self._vectors[text] for text in texts]).to(device)
