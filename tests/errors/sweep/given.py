"""Arguments that callables take: by the name of a parameter, and for those that need others.

What is not callable stands for itself; what is, makes an argument.
"""

import io
import tarfile

import numpy as np

from treadle import Tensor, dtypes, nn
from treadle.nn import optim

from .values import float_matrix

__all__ = ["GIVEN", "GUESSES"]


def ones(*shape):
    return lambda: Tensor(np.ones(shape, np.float32))


def places(values):
    return lambda: Tensor(values)


def function(of):
    return lambda: of


def symmetric():
    return Tensor(np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], np.float32))


def named(names, given):
    return dict.fromkeys(names.split(), given)


def optimizer():
    return optim.SGD([Tensor([1.0, 2.0], requires_grad=True)])


def _with_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    x.grad = Tensor([3.0, 4.0])
    return x


def graph_of(x):
    return (x * x).sum()


def step(state, row):
    return state + row, state


def archive():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a"))
    return Tensor(np.frombuffer(file.getvalue(), np.uint8))


ROWS, INTS, VECTOR, SQUARE = float_matrix, places([[1, 2, 3], [4, 5, 6]]), ones(3), symmetric
PLACES, BATCH, IMAGES, CLASSES = places([[0, 1, 0]] * 2), ones(2, 3, 3), ones(1, 4, 6, 6), [0, 2]
LABELS, SIGNS, HEADS = places(CLASSES), places([1.0, -1.0]), ones(2, 2, 3, 4)
ARRAY = np.arange(6, dtype=np.float32)
PARAMETERS = {"params": lambda: [Tensor([1.0, 2.0], requires_grad=True)]}
CHANNELS = {"in_channels": 2, "out_channels": 4, "kernel_size": 3}
BINARY_INTS = {"self": INTS, "x": INTS, "other": INTS, "x1": INTS, "x2": INTS}
ON_SQUARE = {"self": SQUARE, "x": SQUARE, "x1": SQUARE, "x2": SQUARE, "b": SQUARE}

_GUESSES = {
    **named("self x x1 x2 other b w tensor1 tensor2 target Y y end imag angle values weight "
            "positive negative q var exponent factor", ROWS),
    **named("batch1 batch2", BATCH), **named("shape order axes", (1, 0)),
    **named("dim axis start start_dim destination shifts shift offset", 0),
    **named("n k m steps chunks length size step stop row col num_samples groups num source p "
            "threshold repeats maxnorm r n_rows steps upscale_factor downscale_factor lambd", 1),
    **named("input_size hidden_size sz vocab_size embed_size num_groups num_channels num_features "
            "normalized_shape in_features out_features embed_dim num_heads nan d", 3),
    "value": 2.0, "fill_value": 2.0, "index": PLACES, "indices": PLACES,
    "mask": lambda: float_matrix() > 2, "dtype": dtypes.float32, "device": "CPU",
    "formula": "ij->ji", "reduce": "sum", "upper": False, "sizes": (2, 1), "reps": (1, 2),
    "repetitions": (1, 2), "indices_or_sections": 1, "output_size": (2, 2), "kernel_size": 2,
    "test_elements": ROWS, "boundaries": VECTOR, "padding": (1, 1), "order": (1, 0),
    "optimizer": optimizer, "params": PARAMETERS["params"], "lr": 0.1, "options": dict,
    "func": function(graph_of), "primals": lambda: (ROWS(),), "tangents": lambda: (ROWS(),),
    "arrays": lambda: [ROWS(), ROWS()], "obj": lambda: [[1.0, 2.0]], "from_": dtypes.int8,
    "to": dtypes.int32, "type": dtypes.float32, "kind": "integral", "condition": lambda: ROWS() > 2,
    "ll": lambda: [Tensor.relu], "devices": ("CPU:1", "CPU:2"), "a": (0.5, 0.5), "steps": 2,
    "model": lambda: nn.Linear(2, 3), "T_max": 5, "max_lr": 1.0, "total_steps": 5, "step_size": 2,
    "unflattened_size": (3, 1), "max_norm": 1.0, "clip_value": 1.0, "url": "file:///there/is/nothing",
    "parameters": lambda: [_with_gradient()],
    "state": ROWS, "inputs": lambda: ROWS().expand(4, 2, 3),
}  # fmt: skip

_GIVEN = {
    **named("adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d max_pool2d im2col lp_pool2d",
            {"self": IMAGES, "kernel_size": (2, 2)}),
    "bmm": {"self": BATCH, "mat2": BATCH}, "mm": {"self": SQUARE, "mat2": SQUARE},
    "mv": {"self": SQUARE, "vec": VECTOR}, "TensorIO": {"t": lambda: Tensor(b"abc")},
    **{f"nn.{kind}Pad{rank}d": {"padding": 1} for rank in (1, 2, 3)
       for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular")},
    "addbmm": {"self": SQUARE}, "addmm": {"self": SQUARE, "mat1": SQUARE, "mat2": SQUARE},
    "baddbmm": {"self": BATCH},
    "addmv": {"self": VECTOR, "mat": SQUARE, "vec": VECTOR},
    "addr": {"self": SQUARE, "vec1": VECTOR, "vec2": VECTOR},
    "affine_grid": {"self": ones(1, 2, 3), "size": (1, 1, 4, 4)},
    **named("backward item gradient", {"self": lambda: Tensor(2.0, requires_grad=True).relu()}),
    "batchnorm": {"weight": VECTOR, "bias": VECTOR, "mean": VECTOR, "invstd": VECTOR},
    "bernoulli": {"self": lambda: ROWS() / 10}, "bilinear": {"weight": ones(2, 3, 3)},
    "bincount": {"self": LABELS},
    **named("bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_invert bitwise_left_shift "
            "bitwise_right_shift lshift rshift gcd lcm one_hot", BINARY_INTS | {"x": INTS}),
    **named("broadcast_to expand", {"shape": (2, 2, 3)}),
    "cartesian_prod": {"self": VECTOR, "args": lambda: (VECTOR(),)},
    **named("channel_shuffle pixel_shuffle pixel_unshuffle local_response_norm max_unpool2d",
            {"self": IMAGES, "indices": lambda: IMAGES().int()}),
    **named("cholesky cholesky_inverse det eig eigh eigvals eigvalsh inv inverse logdet matrix_exp "
            "matrix_power slogdet solve solve_triangular lu lu_factor", ON_SQUARE),
    "cholesky_solve": {"self": SQUARE, "factor": SQUARE},
    "triangular_solve": {"self": SQUARE, "A": SQUARE},
    **named("lu_solve lu_unpack", {"self": SQUARE, "pivots": places([1, 2, 3]), "b": SQUARE}),
    **named("clamp clip", {"min_": 0.0}),
    "col2im": {"self": ones(1, 16, 25), "output_size": (6, 6)},
    "combinations": {"self": VECTOR},
    **named("conv2d image_conv2d conv_transpose2d",
            {"self": IMAGES, "weight": ones(4, 4, 3, 3), "bias": ones(4)}),
    "cosine_embedding_loss": {"target": SIGNS},
    "ctc_loss": {"self": lambda: ones(5, 2, 4)().log_softmax(), "targets": places([[1, 2]] * 2),
                 "input_lengths": lambda: Tensor([5, 5]), "target_lengths": lambda: Tensor([2, 2])},
    **named("cumulative_sum cumulative_prod take", {"axis": 1, "indices": places([0, 1])}),
    "Tensor.take": {"index": places([0, 1])}, "dsplit": {"self": ones(2, 3, 4)},
    "einsum": {"operands": lambda: (ROWS(),)},
    "embedding_bag": {"self": PLACES, "weight": ROWS},
    "from_blob": {"ptr": ARRAY.ctypes.data, "shape": (6,), "owner": ARRAY},
    "from_url": {"url": "file:///there/is/nothing"},
    "gaussian_nll_loss": {"var": ROWS}, "glorot_uniform": {"shape": (2, 3)},
    **named("kaiming_normal kaiming_uniform scaled_uniform normal uniform rand randn randint zeros "
            "ones empty", {"shape": (2, 3)}),
    "split": {"sizes": [1, 1]}, "array_api.repeat": {"repeats": 2}, "iinfo": {"type": dtypes.int8},
    "glu": {"self": ones(2, 4)},
    "grid_sample": {"self": IMAGES, "grid": ones(1, 2, 2, 2)},
    **named("index_add index_copy index_reduce index_fill", {
        "index": places([0, 1]), "source": ROWS, "reduce": "prod"}),
    "index_select": {"index": places([0, 1])},
    "interpolate": {"self": IMAGES, "size": (3, 3)},
    "stft": {"self": ones(64), "n_fft": 16, "hop_length": 4},
    "istft": {"self": lambda: ones(9, 20)() * 1j, "n_fft": 16, "hop_length": 4},
    "keccak": {"self": lambda: Tensor(b"abc")},
    **named("linear image_dot dot matmul multi_dot",
            {"self": SQUARE, "weight": SQUARE, "bias": VECTOR, "w": SQUARE,
             "x": SQUARE, "x1": SQUARE, "x2": SQUARE, "args": lambda: (SQUARE(),)}),
    "masked_scatter": {"source": ROWS},
    **named("multi_margin_loss nll_loss cross_entropy sparse_categorical_crossentropy",
            {"target": LABELS, "Y": LABELS}),
    "multilabel_margin_loss": {"target": PLACES},
    "newton_schulz": {"params": (2.0, -1.5, 0.5)},
    **named("outer vdot", {"self": VECTOR, "b": VECTOR, "other": VECTOR, "x1": VECTOR,
                           "x2": VECTOR}),
    "prelu": {"weight": VECTOR}, "put": {"index": places([0, 1]), "source": SIGNS},
    "rearrange": {"formula": "a b -> b a"}, "repeat": {"repeats": (1, 2)},
    "rms_norm": {"normalized_shape": (3,)}, "scaled_dot_product_attention": {
        "self": HEADS, "key": HEADS, "value": HEADS},
    **named("scatter scatter_reduce", {"src": ROWS}), "shrink": {"arg": ((0, 1), (0, 2))},
    "shrink_to": {"shape": (1, 2)}, "pad_to": {"shape": (3, 4)},
    "tensorinv": {"self": SQUARE, "ind": 1}, "tensorsolve": {"self": SQUARE, "b": VECTOR},
    "unflatten": {"sizes": (1, 2)}, "unravel_index": {"self": LABELS, "shape": (2, 3)},
    "view_as_complex": {"self": ones(3, 2)}, "view_as_real": {"self": places([1j, 2])},
    "bucketize": {"boundaries": VECTOR}, "searchsorted": {"self": VECTOR, "x1": VECTOR, "x2": ROWS},
    "from_cuda_array": {"x": ROWS}, "quantile": {"q": 0.5}, "nanquantile": {"q": 0.5},
    "multigammaln": {"p": 1}, "reshape": {"shape": (3, 2)}, "view": {"shape": (3, 2)},
    "array_api.where": {"x1": ROWS, "x2": ROWS}, "array_api.broadcast_arrays": {
        "arrays": lambda: (ROWS(), ROWS())}, "result_type": {
        "arrays_and_dtypes": lambda: (ROWS(), dtypes.int8)},
    "array_api.squeeze": {"x": ones(1, 3)}, "array_api.linspace": {"stop": 2.0},
    "optim.OptimizerGroup": {"optimizers": lambda: (optimizer(),)},
    "SequentialLR": {"schedulers": lambda: [optim.StepLR(optimizer(), 2)], "milestones": []},
    **named("nn.Conv1d nn.Conv2d nn.Conv3d nn.ConvTranspose1d nn.ConvTranspose2d "
            "nn.ConvTranspose3d", CHANNELS),
    "vjp": {"primals": lambda: (ROWS(),)}, "scan": {"step": function(step)},
    **named("npy_load npz_load safe_load safe_load_metadata torch_load gguf_load", {
        "fn": "/there/is/nothing", "t": "/there/is/nothing", "tensor": "/there/is/nothing"}),
    "tar_extract": {"t": archive},
    "safe_save": {"tensors": lambda: {"a": ROWS()}, "fn": "/there/is/nothing/a.safetensors"},
    "load_state_dict": {"state_dict": lambda: nn.state.get_state_dict(nn.Linear(2, 3))},
}  # fmt: skip


def _made(given):
    return given if callable(given) else lambda: given


GUESSES = {key: _made(given) for key, given in _GUESSES.items()}
GIVEN = {name: {key: _made(given) for key, given in row.items()} for name, row in _GIVEN.items()}
