"""Small models of transformers and torchvision, with random weights and inputs; no dropout.

model, inputs = MODELS["BERT"]()
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .torchvision_operators import declare

__all__ = ["MODELS"]

declare()  # before transformers imports torchvision

Made = tuple[torch.nn.Module, dict[str, torch.Tensor]]

BATCH, TOKENS, WORDS = 4, 64, 1000
WIDTH, HEADS, LAYERS = 128, 4, 2


def _words() -> torch.Tensor:
    return torch.randint(0, WORDS, (BATCH, TOKENS))


def _bert() -> Made:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=TOKENS, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )  # fmt: skip
    return BertForMaskedLM(config), {"input_ids": _words()}


def _gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=WORDS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=TOKENS,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), {"input_ids": _words()}


def _llama() -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": _words()}


def _t5() -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=WORDS, d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=2 * WIDTH, num_layers=LAYERS,
        num_heads=HEADS, dropout_rate=0, feed_forward_proj="gated-gelu", use_cache=False,
    )  # fmt: skip
    given = {"input_ids": _words(), "decoder_input_ids": _words()}
    return T5ForConditionalGeneration(config), given


def _whisper() -> Made:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=WORDS, num_mel_bins=16, encoder_layers=LAYERS, decoder_layers=LAYERS,
        d_model=WIDTH, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=4 * WIDTH, decoder_ffn_dim=4 * WIDTH, max_source_positions=80,
        max_target_positions=TOKENS, dropout=0, use_cache=False, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    given = {"input_features": torch.randn(BATCH, 16, 160), "decoder_input_ids": _words()}
    return WhisperForConditionalGeneration(config), given


def _resnet18() -> Made:
    from torchvision.models import resnet18

    return resnet18(num_classes=100), {"x": torch.randn(BATCH, 3, 64, 64)}


def _convnext() -> Made:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(32, 64, 2), CNBlockConfig(64, None, 2)]
    return ConvNeXt(blocks, num_classes=100), {"x": torch.randn(BATCH, 3, 64, 64)}


def _vit() -> Made:
    from torchvision.models import VisionTransformer

    model = VisionTransformer(64, 8, LAYERS, HEADS, WIDTH, 4 * WIDTH, num_classes=100)
    for head in model.heads.parameters():  # zeros, with which no gradient goes further
        torch.nn.init.normal_(head)
    return model, {"x": torch.randn(BATCH, 3, 64, 64)}


def _small() -> Made:
    """A model whose kernels take a few microseconds: what is left is the way in and out."""
    layers = [torch.nn.Linear(16, 16) for _ in range(3)]
    return torch.nn.Sequential(*layers), {"input": torch.randn(4, 16)}


MODELS: dict[str, Callable[[], Made]] = {
    "BERT": _bert,
    "GPT-2": _gpt2,
    "Llama": _llama,
    "T5": _t5,
    "Whisper": _whisper,
    "ResNet-18": _resnet18,
    "ConvNeXt": _convnext,
    "ViT": _vit,
    "three small layers": _small,
}
