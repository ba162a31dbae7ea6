"""Whole networks: inference, and training steps with Adam."""

from __future__ import annotations

from ..models import Decoder, DigitNet, Network, Perceptron, Recurrent, ResNet
from ..work import TORCH, Bar, Input, Work

__all__ = ["DECODER_TRAINING", "RESNET_INFERENCE", "rows"]

INFERENCE = (Bar((*TORCH, "torch.compile", "onnxruntime"), 1.0),)
TRAINING = (Bar((*TORCH, "torch.compile"), 1.0),)

# The rows that the first-call measurements and others look up.
RESNET_INFERENCE = "ResNet-18 inference, batch 1"
DECODER_TRAINING = "GPT-2 training"


def rows(quick: bool) -> list[Work]:
    """At least the best of PyTorch, torch.compile and, for inference, ONNX Runtime."""
    batch, sizes = (4, (1,)) if quick else (128, (1, 8))
    perceptron = Perceptron((32, 64, 10) if quick else (784, 1024, 1024, 10))
    return [
        *(_resnet_inference(quick, n) for n in sizes),
        *(_resnet_training(quick, n) for n in sizes),
        *_decoder(quick),
        *_both(f"demo CNN, batch {batch}", DigitNet(), batch, (1, 8, 8), 10),
        *_both(f"MLP, batch {batch}", perceptron, batch, perceptron.widths[:1], 10),
        *(row for steps in ((5,) if quick else (100, 1000)) for row in _recurrent(quick, steps)),
    ]


def _inference(name: str, net: Network, flops: float, *given: Input) -> Work:
    return Work("programs", name, "flops", flops, given, net.scores, INFERENCE, weights=net.weights)


def _training(name: str, net: Network, flops: float, *given: Input) -> Work:
    """Both gradients cost as much as the forward pass each."""
    return Work("programs", name, "flops", 3 * flops, given, net.loss, TRAINING,
                weights=net.weights, task="training")  # fmt: skip


def _both(name: str, net: Network, batch: int, shape: tuple[int, ...], classes: int) -> list[Work]:
    x, labels = Input((batch, *shape)), Input((batch,), "int32", below=classes)
    first, _, rest = name.partition(",")
    flops = batch * net.flops
    return [_inference(f"{first} inference,{rest}", net, flops, x),
            _training(f"{first} training,{rest}", net, flops, x, labels)]  # fmt: skip


def _resnet(quick: bool, trained: bool) -> ResNet:
    return ResNet(2, 8, 32, 10, trained) if quick else ResNet(trained=trained)


def _resnet_inference(quick: bool, batch: int) -> Work:
    net = _resnet(quick, trained=False)
    images = Input((batch, 3, net.size, net.size))
    return _inference(f"ResNet-18 inference, batch {batch}", net, batch * net.flops, images)


def _resnet_training(quick: bool, batch: int) -> Work:
    net = _resnet(quick, trained=True)
    images = Input((batch, 3, net.size, net.size))
    labels = Input((batch,), "int32", below=net.classes)
    return _training(f"ResNet-18 training, batch {batch}", net, batch * net.flops, images, labels)


def _decoder(quick: bool) -> list[Work]:
    small: dict[str, int] = {"layers": 2, "width": 32, "heads": 2, "words": 99} if quick else {}
    few, many = (8, 16) if quick else (128, 256)
    prefill, train = Decoder(few, **small), Decoder(many, **small)
    decode = Decoder(1, past=few, **small)
    words = [Input((1, n), "int32", below=prefill.words) for n in (few, 1, many)]
    labels = Input((many,), "int32", below=train.words)
    return [
        _inference(f"GPT-2 prefill, {few} tokens", prefill, prefill.flops, words[0]),
        _inference(f"GPT-2 decode after {few}", decode, decode.flops, words[1], *decode.caches),
        _training(f"{DECODER_TRAINING}, {many} tokens", train, train.flops, words[2], labels),
    ]


def _recurrent(quick: bool, steps: int) -> list[Work]:
    net, batch = Recurrent(steps, 8, 8) if quick else Recurrent(steps, 128, 256), 4 if quick else 32
    x, labels = Input((steps, batch, net.width)), Input((steps * batch,), "int32", below=10)
    flops = batch * net.flops
    return [_inference(f"LSTM inference, {steps} steps", net, flops, x),
            _training(f"LSTM training, {steps} steps", net, flops, x, labels)]  # fmt: skip
