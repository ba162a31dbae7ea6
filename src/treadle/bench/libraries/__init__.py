"""The libraries that rows run on, each behind the same words.

    library = Torch()
    run = library.prepare(work)         # makes the inputs
    library.arrays(run())               # does the work once, waits; its results for NumPy

Words beside the methods that tensors share (`x + y`, `x @ y`, `x.sum(axis)`, `x.reshape(shape)`):

    conv2d(x, w, stride, padding, dilation, groups)     and conv2d_input_gradient(x, w, g, ...),
    conv2d_weight_gradient(x, w, g, ...)
    linear(x, w, bias), embedding(table, index), embedding_gradient(table, index, g)
    attention(q, k, v, causal), softmax(x), cross_entropy(scores, labels)
    layer_norm(x, scale, shift), rms_norm(x, scale), batch_norm(x, scale, shift, mean, variance)
    relu(x), gelu(x) (by tanh), silu(x), dropout(x, p), max_pool2d(x, size, stride, padding)
    copy(x), cast(x, dtype), permute(x, order), contiguous(x), concatenate(xs, axis)
    linalg(function, a, b), fft(x), rgb_of_nv12(luma, chroma, dtype) (limited range, BT.709)
    repeated(lines, times) (each line of (lines, 1, n) so many times)
    split(x, count, axis), mean(x, axes), gather(x, axis, index), scatter_add(x, axis, index, y)

A library that lacks a word raises NotOffered, and has no number in that row.
"""
