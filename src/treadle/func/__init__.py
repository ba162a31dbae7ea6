"""Transforms of functions: derivatives in both directions, and functions of one example for many.

    grad(loss)(w, x), value_and_grad(loss)(w, x)      vjp(f, x), jvp(f, (x,), (dx,))
    jacrev(f)(x), jacfwd(f)(x), hessian(f)(x)         vmap(f, in_dims=(0, None))(xs, w)
    scan(step, state, xs)                             a loop over steps, as one graph

Names and arguments are those of `torch.func`, but for JAX's `value_and_grad` and `scan`. Each
calls the function once, on tensors of its own, and transforms the graph that comes out; so they
nest in any order. What the function reads from around it counts as constant.

They raise UserError for arguments that are no tensors or that `argnums` does not find, DTypeError
for those that have no derivatives, ShapeError for a result or a batch of another shape,
DeviceError for tensors on different devices and ArgumentError for an argument of another kind.
"""

from .derivatives import grad, jvp, value_and_grad, vjp
from .jacobians import hessian, jacfwd, jacrev
from .loops import scan
from .mapping import vmap

__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jvp", "scan", "value_and_grad", "vjp", "vmap"]
