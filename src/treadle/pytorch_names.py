"""Names of PyTorch that are not here, and what to write instead: the text of AttributeErrors.

    Tensor([1.0]).cuda()     AttributeError: a Tensor has no cuda: write x.to("CUDA")
    nn.Module                AttributeError: treadle.nn has no Module: any class with ... is a model

A table for each place where a name may be looked up. A name with an underscore behind it follows
from the name without; one that is in no table is answered with names that are close to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

__all__ = ["of_function", "of_layer", "of_layers", "of_module", "of_tensor"]

Tables: TypeAlias = "Sequence[Mapping[str, str]]"

_SPARSE = "there are no sparse tensors; keep indices and values as two tensors"
_QUANTIZED = "there are no quantized tensors; keep integers and their scale as two tensors"
_MEMORY = "tensors have no strides; memory is row-major, and x.contiguous() gives some of its own"
_HOOK = "there are no hooks; compute with x.grad, or with x.gradient(...), after backward()"
_DEVICE = "x.device names the device, as in x.device == 'CUDA'"
_INTERNAL = "it belongs to PyTorch's own workings and has no counterpart"
_TWO = "x.conj() and -x are values at once, not flags"
_COPY_OF_PART = "y = x.clone(), then y[...] = src"


def _each(answer: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), answer)


# -- methods and attributes of tensors -------------------------------------------------------------

_TENSOR: dict[str, str] = {
    **_each(_SPARSE,
        "ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced is_sparse "
        "is_sparse_csr resize_as_sparse_ row_indices smm sparse_dim sparse_mask sparse_resize_ "
        "sparse_resize_and_clear_ sspaddmm to_dense to_sparse to_sparse_bsc to_sparse_bsr "
        "to_sparse_coo to_sparse_csc to_sparse_csr values"),
    **_each(_QUANTIZED,
        "dequantize int_repr is_quantized q_per_channel_axis q_per_channel_scales "
        "q_per_channel_zero_points q_scale q_zero_point qscheme"),
    **_each(_MEMORY,
        "as_strided as_strided_ as_strided_scatter dim_order is_contiguous is_non_overlapping_and_"
        "dense is_set_to layout new_empty_strided resize resize_ resize_as resize_as_ set_ storage "
        "storage_offset storage_type stride untyped_storage"),
    **_each(_HOOK, "register_hook register_post_accumulate_grad_hook"),
    **_each(_DEVICE,
        "get_device is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn is_mps is_mtia is_vulkan "
        "is_xla is_xpu"),
    **_each(_INTERNAL,
        "as_subclass grad_dtype hash_tensor is_distributed is_inference module_load name output_nr "
        "record_stream reinforce sum_to_size to_mkldnn volatile names rename rename_ align_as "
        "align_to refine_names has_names is_nested to_padded_tensor apply_ map_ map2_ "
        "slice_inverse"),
    **_each(_TWO, "is_conj is_neg resolve_conj resolve_neg conj_physical"),
    **_each(_COPY_OF_PART, "diagonal_scatter select_scatter slice_scatter"),
    **_each("the decomposition is x.qr()", "geqrf orgqr ormqr"),
    **_each("x.chunk(...)", "unsafe_chunk"),
    **_each("x.split(...)", "split_with_sizes unsafe_split unsafe_split_with_sizes"),
    **_each('x.to("CUDA")', "cuda"),
    **_each('x.to(device), with a name that `treadle devices` lists', "ipu mtia xpu hpu"),
    "adjoint": "x.mH, or x.mT of real numbers",
    "backward_": "x.backward()",
    "bernoulli_": "x.assign(Tensor.full(x.shape, p).bernoulli())",
    "byte": 'x.cast("uint8")',
    "cauchy_": "Tensor.rand(...), and the inverse of the distribution",
    "chalf": "x.cast(dtypes.complex64); there is no complex half",
    "char": 'x.cast("int8")',
    "clamp_max": "x.clamp(max=...)",
    "clamp_min": "x.clamp(min=...)",
    "const_data_ptr": 'x.__array_interface__["data"][0], for memory that the host sees',
    "copy_": "x.assign(y)",
    "data_ptr": 'x.__array_interface__["data"][0], for memory that the host sees',
    "detach_": "x = x.detach()",
    "exponential_": "x.assign(Tensor.rand(*x.shape).log() / -rate)",
    "fill_": "x.assign(value)",
    "fill_diagonal_": "x.assign(Tensor.eye(n).bool().where(value, x))",
    "geometric_": "Tensor.rand(...), and the inverse of the distribution",
    "ger": "x.outer(y)",
    "grad_fn": "nothing; `x.requires_grad` says whether gradients reach x",
    "histc_": "x.histc(...)",
    "index": "x[...]",
    "index_put": "y = x.clone(), then y[indices] = values",
    "index_put_": "x[indices] = values",
    "inverse_": "x.assign(x.inverse())",
    "is_nonzero": "bool(x)",
    "is_pinned": "nothing; memory is not pinned",
    "is_same_size": "x.shape == y.shape",
    "is_shared": "nothing; processes do not share tensors",
    "is_signed": "not x.dtype.is_unsigned",
    "itemsize": "x.element_size(), or x.dtype.itemsize",
    "log_normal_": "x.assign(Tensor.normal(*x.shape, mean=..., std=...).exp())",
    "mvlgamma": "a sum of x.lgamma() terms",
    "narrow_copy": "x.narrow(dim, start, length).clone()",
    "ndimension": "x.ndim",
    "nelement": "x.numel()",
    "new": "Tensor(...)",
    "new_empty": "Tensor.empty(..., dtype=x.dtype, device=x.device)",
    "new_full": "Tensor.full(shape, value, dtype=x.dtype, device=x.device)",
    "new_ones": "Tensor.ones(..., dtype=x.dtype, device=x.device)",
    "new_tensor": "Tensor(data, dtype=x.dtype, device=x.device)",
    "new_zeros": "Tensor.zeros(..., dtype=x.dtype, device=x.device)",
    "nonzero_static": "x.nonzero()",
    "normal_": "x.assign(Tensor.normal(*x.shape, mean=..., std=...))",
    "pin_memory": "nothing; memory is not pinned",
    "pinverse": "x.pinv()",
    "positive": "x",
    "random_": "x.assign(Tensor.randint(*x.shape, low=..., high=...))",
    "reshape_as": "x.reshape(y.shape)",
    "resolve": "x",
    "retain_grad": "x.requires_grad_(), or y.gradient(x) for the gradient of any tensor below y",
    "retains_grad": "y.gradient(x), for the gradient of any tensor below y",
    "scatter_add": 'x.scatter(dim, index, src, reduce="add")',
    "scatter_add_": 'x.assign(x.scatter(dim, index, src, reduce="add"))',
    "share_memory_": "nothing; processes do not share tensors",
    "sigmoid_": "x.assign(x.sigmoid())",
    "squeeze_": "x = x.squeeze(...)",
    "swapaxes_": "x = x.swapaxes(...)",
    "swapdims_": "x = x.swapdims(...)",
    "symeig": "x.eigh()",
    "t_": "x = x.T",
    "transpose_": "x = x.transpose(...)",
    "type": "x.dtype, or x.cast(dtype)",
    "type_as": "x.cast(y.dtype)",
    "uniform_": "x.assign(Tensor.uniform(*x.shape, low=..., high=...))",
    "unsqueeze_": "x = x.unsqueeze(...)",
    "zero_": "x.assign(0)",
}  # fmt: skip

# In-place operations that Python has an operator for.
_OPERATORS = {
    "add": "+=", "sub": "-=", "subtract": "-=", "mul": "*=", "multiply": "*=", "div": "/=",
    "divide": "/=", "true_divide": "/=", "floor_divide": "//=", "remainder": "= x % ",
    "pow": "**=", "bitwise_and": "&=", "bitwise_or": "|=", "bitwise_xor": "^=",
    "bitwise_left_shift": "<<=", "bitwise_right_shift": ">>=",
}  # fmt: skip

# -- layers ----------------------------------------------------------------------------------------

_A_CLASS = "any class with a __call__ is a model, and its tensors are its parameters"
_LAZY = "give the size of the input to the layer of that name without Lazy"
_ATTENTION = "build it of nn.MultiheadAttention, nn.LayerNorm and nn.Linear"

_LAYERS: dict[str, str] = {
    **_each(_A_CLASS, "Module Container RNNBase RNNCellBase"),
    **_each("a list of layers is one", "ModuleList ParameterList"),
    **_each("a dictionary of layers is one", "ModuleDict ParameterDict"),
    **_each("an attribute that is a tensor; Tensor(v, requires_grad=False) is a buffer",
        "Parameter Buffer UninitializedParameter UninitializedBuffer parameter"),
    **_each(_LAZY,
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d "
        "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d "
        "LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"),
    **_each(_ATTENTION,
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer"),
    **_each("x.shard(devices, axis=0), and parameters without an axis",
        "DataParallel SyncBatchNorm parallel"),
    **_each(_INTERNAL,
        "common_types factory_kwargs grad intrinsic modules qat quantizable quantized "
        "AdaptiveLogSoftmaxWithLoss CrossMapLRN2d FractionalMaxPool2d FractionalMaxPool3d "
        "LinearCrossEntropyLoss LinearCrossEntropyOptions NLLLoss2d"),
    **_each("x.abs().pow(p), nn.AvgPool of it times the window's size, and the root",
        "LPPool1d LPPool2d LPPool3d"),
    **_each("x.max_unpool2d(indices, kernel_size)", "MaxUnpool1d MaxUnpool2d MaxUnpool3d"),
    "Bilinear": "x.bilinear(y, weight, bias)",
    "CosineSimilarity": "x.cosine_similarity(y)",
    "EmbeddingBag": "indices.embedding_bag(weight)",
    "LocalResponseNorm": "x.local_response_norm(size)",
    "PairwiseDistance": "x.pairwise_distance(y)",
    "TripletMarginWithDistanceLoss": "x.triplet_margin_with_distance_loss(positive, negative)",
    "UpsamplingBilinear2d": 'nn.Upsample(size, mode="bilinear", align_corners=True)',
    "UpsamplingNearest2d": "nn.Upsample(size)",
}  # fmt: skip

# What users look for on a layer, where PyTorch's Module has it.
_LAYER: dict[str, str] = {
    **_each("nn.state.get_parameters(model)", "parameters buffers"),
    **_each("nn.state.get_state_dict(model)", "state_dict named_parameters named_buffers"),
    **_each("a list or an attribute of your own; models are plain objects",
        "modules named_modules children named_children add_module register_module get_submodule "
        "get_parameter get_buffer"),
    **_each("with Tensor.train(): around the calls; outside of it, nothing trains",
        "train eval training"),
    **_each("there are no hooks; call functions before and after the layer",
        "register_forward_hook register_forward_pre_hook register_backward_hook "
        "register_full_backward_hook"),
    **_each("p.to_(device) of each p in nn.state.get_parameters(model)",
        "to cpu cuda xpu ipu mtia"),
    **_each("nn.state.load_state_dict(model, {name: t.cast(dtype) ...})",
        "half float double bfloat16 type"),
    "forward": "layer(x): __call__ is what runs",
    "load_state_dict": "nn.state.load_state_dict(model, state)",
    "zero_grad": "optimizer.zero_grad()",
    "requires_grad_": "p.requires_grad_(...) of each p in nn.state.get_parameters(model)",
    "register_buffer": "an attribute: model.name = Tensor(v, requires_grad=False)",
    "register_parameter": "an attribute: model.name = tensor",
    "apply": "a loop over nn.state.get_parameters(model)",
    "share_memory": "nothing; processes do not share tensors",
    "compile": "TinyJit(function)",
}  # fmt: skip

# -- functions -------------------------------------------------------------------------------------

_FUNCTIONS: dict[str, str] = {
    **_each("x.adaptive_avg_pool2d(output_size), with one size for each axis",
        "adaptive_avg_pool1d adaptive_avg_pool3d"),
    **_each("x.adaptive_max_pool2d(output_size), with one size for each axis",
        "adaptive_max_pool1d adaptive_max_pool3d"),
    **_each("x.adaptive_max_pool2d(output_size, return_indices=True)",
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices "
        "adaptive_max_pool3d_with_indices"),
    **_each("x.avg_pool2d(kernel_size), with one size for each axis", "avg_pool1d avg_pool3d"),
    **_each("x.max_pool2d(kernel_size), with one size for each axis", "max_pool1d max_pool3d"),
    **_each("x.max_pool2d(kernel_size, return_indices=True)",
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"),
    **_each("x.max_unpool2d(indices, kernel_size)", "max_unpool1d max_unpool3d"),
    **_each("x.conv2d(weight, bias), for any number of axes", "conv1d conv3d conv_tbc convolution"),
    **_each("x.conv_transpose2d(weight, bias), for any number of axes",
        "conv_transpose1d conv_transpose3d"),
    **_each("x.feature_dropout(p)", "dropout1d dropout2d dropout3d"),
    **_each("x.interpolate(size, mode)", "upsample upsample_bilinear upsample_nearest"),
    **_each("x.abs().pow(p), x.avg_pool2d of it times the window's size, and the root",
        "lp_pool1d lp_pool2d lp_pool3d"),
    **_each(_INTERNAL,
        "fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices grouped_mm linear_cross_entropy "
        "multi_head_attention_forward native_channel_shuffle scaled_grouped_mm scaled_mm"),
    "batch_norm": "nn.BatchNorm(features)(x), or x.batchnorm(weight, bias, mean, invstd)",
    "binary_cross_entropy": "x.binary_crossentropy(y)",
    "binary_cross_entropy_with_logits": "x.binary_crossentropy_logits(y)",
    "bmm": "x.bmm(y)",
    "embedding": "weight[indices], or nn.Embedding(rows, width)",
    "fold": "x.col2im(output_size, kernel_size)",
    "group_norm": "nn.GroupNorm(groups, channels)(x)",
    "gumbel_softmax": "((x - (-Tensor.rand(*x.shape).log()).log()) / tau).softmax()",
    "instance_norm": "nn.InstanceNorm(channels)(x)",
    "layer_norm": "nn.LayerNorm(shape)(x), or x.layernorm(axis)",
    "unfold": "x.im2col(kernel_size); x.unfold(dim, size, step) is of one axis",
}  # fmt: skip

_MODULE: dict[str, str] = {
    **_each("Tensor(data)", "tensor as_tensor asarray from_numpy scalar_tensor frombuffer"),
    **_each("dtypes.NAME", "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 complex64"
        " complex128 finfo iinfo promote_types result_type can_cast"),
    **_each("isinstance(x, Tensor)", "is_tensor"),
    **_each("nn.state.safe_save(state, path)", "save"),
    **_each("nn.state.torch_load(path), or nn.state.safe_load(path)", "load"),
    **_each("TinyJit(function)", "compile script trace"),
    **_each("Tensor.no_grad()", "no_grad inference_mode enable_grad set_grad_enabled "
        "is_grad_enabled"),
    **_each("the settings in `treadle env`", "set_num_threads get_num_threads backends"
        " set_default_dtype get_default_dtype set_default_device set_printoptions"),
    **_each("Tensor.manual_seed(seed)", "seed Generator initial_seed"),
    **_each("treadle.Device", "cuda mps xpu"),
    "add": "x + y",
    "autograd": "loss.gradient(x), or treadle.grad(function)",
    "hann_window": "treadle.windows.hann(n)",
    "hamming_window": "treadle.windows.hamming(n)",
    "blackman_window": "treadle.windows.blackman(n)",
    "bartlett_window": "treadle.windows.bartlett(n)",
    "kaiser_window": "treadle.windows.kaiser(n)",
    "linalg": "methods: x.svd(), x.solve(b); or treadle.array_api.linalg",
    "special": "methods: x.i0e(), x.erfinv()",
    "signal": "treadle.windows",
    "optim": "nn.optim",
    "empty_like": "x.zeros_like()",
    "randint_like": "Tensor.randint(*x.shape, low=..., high=...)",
    "trapz": "x.trapezoid()",
    "mm": "x.mm(y)",
    "row_stack": "Tensor.vstack(a, b)",
    "rsub": "y - x",
    "broadcast_shapes": "numpy.broadcast_shapes(...)",
    "poisson": "numpy's generator, and Tensor(...) of it",
    "UOp": "treadle.ir.node.Node",
}  # fmt: skip


class MissingName(AttributeError):
    """An AttributeError that looks for what to write only when somebody reads it: libraries ask
    tensors for names that these do not have all the time.
    """

    def __init__(self, head: str, name: str, tables: Tables, known: Iterable[str], prefix: str):
        super().__init__(name=name)
        self._asked = head, name, tables, known, prefix

    def __str__(self) -> str:
        head, name, tables, known, prefix = self._asked
        return f"{head}: {_answer(name, tables, set(known), prefix)}"


def of_tensor(name: str, known: Iterable[str]) -> AttributeError:
    """What is raised for a name that tensors do not have; `known` are those that they have."""
    return MissingName(f"a Tensor has no {name}", name, (_TENSOR, _FUNCTIONS), known, "x.")


def of_function(name: str, known: Iterable[str]) -> AttributeError:
    """What is raised for a function of PyTorch's; `known` are the methods of tensors."""
    head = f"treadle.nn.functional has no {name}, since functions of tensors are methods"
    return MissingName(head, name, (_FUNCTIONS, _TENSOR), known, "x.")


def of_layers(name: str, known: Iterable[str]) -> AttributeError:
    """What is raised for a name that `treadle.nn` does not have."""
    return MissingName(f"treadle.nn has no {name}", name, (_LAYERS,), known, "nn.")


def of_layer(kind: str, name: str, known: Iterable[str]) -> AttributeError:
    """What is raised for a name that a layer of the class `kind` does not have."""
    return MissingName(f"a {kind} has no {name}", name, (_LAYER,), known, "layer.")


def of_module(name: str, methods: Iterable[str]) -> AttributeError:
    """What is raised for a name that `treadle` itself does not have; `methods` are a tensor's."""
    head = f"module 'treadle' has no attribute {name!r}"
    return MissingName(head, name, (_MODULE, _FUNCTIONS, _TENSOR), methods, "Tensor.")


def _answer(name: str, tables: Tables, known: Collection[str], prefix: str) -> str:
    for table in tables:
        if name in table:
            return _written(table[name])
        base = name.removesuffix("_")
        if base != name and base in table:
            return f"{_written(table[base])}, and x.assign(...) of it"
    base = name.removesuffix("_")
    if base != name and base in _OPERATORS:
        return _written(f"x {_OPERATORS[base]} y")
    if base != name and base in known:
        return _written(f"{prefix}assign({prefix}{base}(...)), or x = {prefix}{base}(...)")
    if name in known:  # of a function, as a method
        return _written(f"{prefix}{name}(...)")
    return _close(name, known, prefix)


def _written(answer: str) -> str:
    """An answer that begins with code is what to write; the others are sentences."""
    is_code = any(mark in answer.split(" ", 1)[0] for mark in ".([=") or answer.startswith("x ")
    return f"write {answer}" if is_code else answer


def _close(name: str, known: Collection[str], prefix: str) -> str:
    import difflib  # only where something is missing: importing treadle stays fast

    public = [one for one in known if not one.startswith("_")]
    lower = {one.lower(): one for one in public}
    close = difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=0.6)
    if not close:
        return "dir() lists what there is; docs/pytorch.md says what is called otherwise"
    shown = [prefix + lower[one] for one in close]
    return f"did you mean {' or '.join(shown)}?"
