"""Loading the towers of CLIP-like models by open_clip, from a tag or a local file."""

from __future__ import annotations

from typing import Any

from rscc.errors import ExtraNotInstalled, WeightsNotFound


def load_clip(name: str, source: str | None, *, instead: str) -> Any:
    """Load a whole open_clip model, frozen and in evaluation mode.

    OpenAI's towers were trained with QuickGELU, which their tag says. A local file says nothing: name the
    architecture's ``-quickgelu`` form where its weights need that.

    Args:
        name: an architecture (``ViT-B-32``), or ``hf-hub:owner/name`` or ``local-dir:/folder``, which bring
            their own weights.
        source: a tag of the architecture (``openai``) or a local checkpoint file; None with own weights.
        instead: what the user can do without the weights, for the error's end.

    Raises:
        ExtraNotInstalled: open_clip is not installed.
        WeightsNotFound: unknown name or tag, no such file, or the download failed.
    """
    try:
        import open_clip
    except ImportError as error:
        raise ExtraNotInstalled("CLIP needs open_clip; install it with: pip install 'rscc[train]'") from error
    tag: dict[str, Any] = {} if source is None else open_clip.get_pretrained_cfg(name, source)
    try:
        model = open_clip.create_model(
            name,
            pretrained=source,
            require_pretrained=True,
            weights_only=True,
            force_quick_gelu=tag.get("quick_gelu", False),
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise WeightsNotFound(
            f"open_clip model {name} ({source or 'own weights'}) cannot be loaded: {reason}; "
            f"give a known tag or a local checkpoint file, or {instead}"
        ) from error
    return model.eval().requires_grad_(False)
