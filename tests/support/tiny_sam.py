"""Segment Anything of transformers with a few random weights, for images of 64 pixels."""

import torch


def tiny_sam():
    from transformers import SamConfig, SamModel

    config = SamConfig(
        vision_config={
            **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 64},
            **{"output_channels": 16, "mlp_dim": 24, "global_attn_indexes": [0], "window_size": 2},
            "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 64, "mask_input_channels": 4},
        mask_decoder_config={
            **{"hidden_size": 16, "mlp_dim": 24, "num_attention_heads": 2, "iou_head_hidden_dim": 16},
            **{"num_hidden_layers": 1},
        },
    )
    torch.manual_seed(0)
    return SamModel(config).eval()
