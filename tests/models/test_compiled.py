"""torch.compile(backend="treadle") over models of torchvision, timm and transformers.

Random weights, nothing is loaded, no dropout: values and the gradients of all parameters are right.
"""

from __future__ import annotations

import copy
import os

import pytest

torch = pytest.importorskip("torch", reason="torch.compile: pip install treadle[oracle]")
pytest.importorskip("transformers", reason="the models: pip install treadle[models]")
pytest.importorskip("torchvision", reason="the models: pip install treadle[models]")
pytest.importorskip("timm", reason="the models: pip install treadle[models]")

from .judge import check, steady  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler, and of these libraries


def words(*shape):
    return lambda: torch.randint(0, 200, shape)


def drawn(*shape):
    return lambda: torch.randn(shape)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=200, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": words(2, 96)}


def bert():
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=200, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=80, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
    )  # fmt: skip
    seen = lambda: (torch.arange(72) < torch.tensor([[72], [50]])).long()
    return BertForMaskedLM(config), {"input_ids": words(2, 72), "attention_mask": seen}


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=200, d_model=128, d_kv=32, d_ff=256, num_layers=1, num_heads=4, dropout_rate=0,
        feed_forward_proj="gated-gelu", use_cache=False,
    )  # fmt: skip
    given = {"input_ids": words(2, 64), "decoder_input_ids": words(2, 64)}
    return T5ForConditionalGeneration(config), given


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=200, num_mel_bins=16, encoder_layers=1, decoder_layers=1, d_model=128,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
        decoder_ffn_dim=256, max_source_positions=80, max_target_positions=64, dropout=0,
        use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    given = {"input_features": drawn(2, 16, 160), "decoder_input_ids": words(2, 64)}
    return WhisperForConditionalGeneration(config), given


def vit():
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(
        img_size=64, patch_size=8, embed_dim=128, depth=2, num_heads=4, num_classes=10
    )
    return model, {"x": drawn(2, 3, 64, 64)}


def resnet():
    from timm.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, (1, 1, 1, 1), 10, channels=(16, 16, 32, 32))
    return model, {"x": drawn(2, 3, 64, 64)}


def resnet18():
    from torchvision.models import resnet18

    return resnet18(num_classes=10), {"x": drawn(2, 3, 64, 64)}


def mobilenet():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    settings = [
        InvertedResidualConfig(16, 3, 32, 24, True, "RE", 2, 1, 1),
        InvertedResidualConfig(24, 5, 64, 24, False, "HS", 1, 1, 1),
    ]
    return MobileNetV3(settings, 64, 10, dropout=0), {"x": drawn(2, 3, 48, 48)}


def efficientnet():
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig

    settings = [MBConvConfig(4, 3, 2, 16, 24, 2)]
    model = EfficientNet(settings, dropout=0, stochastic_depth_prob=0, num_classes=10)
    return model, {"x": drawn(2, 3, 48, 48)}


def unet():
    """The definition beside these: none of the three libraries has one."""
    from .definitions import UNet, torch_library

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = UNet(torch_library())
            for name in ("downs", "ups", "joins"):
                setattr(self, name, torch.nn.ModuleList(getattr(self.net, name)))
            self.bottom, self.head = self.net.bottom, self.net.head

        def forward(self, x):
            return self.net(x)

    return Module(), {"x": drawn(2, 3, 32, 32)}


MODELS = [llama, bert, t5]
if "FULL_TESTS" in os.environ:  # half a minute each to compile; small ones are in test_models.py
    MODELS += [vit, whisper, resnet, efficientnet, mobilenet, unet, resnet18]


def run(call, model, given):
    """The result for `given`, and the gradients of all parameters, by name."""
    kind = next(model.parameters()).dtype
    model.zero_grad()
    out = call(**{n: t.to(kind) if t.is_floating_point() else t for n, t in given.items()})
    out = getattr(out, "logits", out)
    generator = torch.Generator().manual_seed(9)
    if out.requires_grad:
        (out * torch.randn(out.shape, generator=generator).to(kind)).sum().backward()
    slopes = {n: p.grad.numpy().copy() for n, p in model.named_parameters() if p.grad is not None}
    return {"result": out.detach().numpy().copy(), **slopes}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_values_and_gradients_of_compiled_models_are_right(make):
    from treadle.interop.dynamo import compile_graph

    torch._dynamo.reset()
    torch.manual_seed(0)
    model, draw = make()
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)

    def given(seed):
        torch.manual_seed(seed)
        return {name: one() for name, one in draw.items()}

    inputs = given(steady(lambda seed: run(copy.deepcopy(exact), exact, given(seed))))
    wanted, theirs = run(exact, exact, inputs), run(eager, eager, inputs)
    fast = torch.compile(model, backend=compile_graph, dynamic=False)
    for _ in range(3):  # plain, captured, replayed
        check(run(fast, model, inputs), theirs, wanted)
