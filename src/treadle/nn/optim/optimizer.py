"""What all optimisers share: parameters in groups, their learning rates, and one step.

An optimiser is a function from (parameter, gradient) to a new value; this base reads the
gradients, casts, and assigns, so that subclasses hold the formula alone.

    Adam([{"params": head, "lr": 1e-3}, {"params": body}], lr=1e-4)
    opt.param_groups[0]["lr"] = 1e-2        # writes the tensor that captured steps read, too
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...dtype import dtypes
from ...errors import ArgumentError, UserError
from ...explained import explained
from ...ir.shape import Shape
from ...kinds import shown
from ...tensor import Tensor
from ...tensor.types import Placement

__all__ = ["Optimizer", "OptimizerGroup", "ParameterGroup", "Params"]

Params: TypeAlias = Iterable[Tensor] | Iterable[Mapping[str, object]]


@explained
class ParameterGroup(dict[str, Any]):
    """Parameters that are stepped alike: "params", the options of their step, and its state.

    "lr" is a float32 Tensor of shape (1,); a number set as "lr" is written into that tensor. What
    a step updates besides is under the names of `state`: a tensor, or a list of one a parameter.
    Raises ShapeError, DTypeError, IndexOutOfRange or ArgumentError for what is no list of tensors,
    no rate or no dictionary.
    """

    def __init__(self, params: list[Tensor], lr: float, options: Mapping[str, object]) -> None:
        super().__init__(options, params=params)
        self.state: list[str] = []
        super().__setitem__("lr", self._constant([float(lr)], (1,)))

    def __setitem__(self, key: str, value: object) -> None:
        if key != "lr" or "lr" not in self:  # not there yet: a copy is being filled
            super().__setitem__(key, value)
        elif isinstance(value, Tensor):
            rate = value.to(self["lr"].device).reshape(1).cast(dtypes.float32)
            self["lr"].assign(rate).realize()
        else:
            self["lr"].assign(self._constant([_rate(value)], (1,))).realize()

    def keep_scalar(self, name: str, value: float) -> None:
        """State `name`: a float32 tensor of shape (1,) that lives across steps."""
        self[name] = self._constant([value], (1,))
        self.state.append(name)

    def keep_zeros(self, name: str) -> None:
        """State `name`: float32 zeros for each parameter, that live across steps.

        Of a parameter that is split over devices, they are split alike.
        """
        self[name] = [
            self._constant(0.0, t.shape)
            if isinstance(t.device, str)
            else t.detach().zeros_like(dtype=dtypes.float32).contiguous()
            for t in self["params"]
        ]
        self.state.append(name)

    def state_tensors(self) -> list[Tensor]:
        """The float32 tensors that a step updates besides the parameters: (1,) or of
        their shape.
        """
        values = [self[name] for name in self.state]
        return [t for value in values for t in (value if isinstance(value, list) else [value])]

    def _constant(self, value: object, shape: Shape) -> Tensor:
        import numpy as np

        # From host memory: a buffer of its own to assign to, with no kernel to compile.
        data = np.broadcast_to(np.asarray(value, np.float32), shape).copy()
        device = self["params"][0].device
        return Tensor(data, dtype=dtypes.float32, device=device, requires_grad=False)


def _rate(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"[lr] a rate is a number or a tensor, not {shown(value)}") from None


@explained
class Optimizer:
    """Base of the optimisers over `params`: tensors, or groups as dicts of "params" and options.

    Parameters are floats of any shape; a step computes in float32 and keeps their dtype. A group
    takes the options that it does not name from the optimiser's. Tensors with `requires_grad=False`
    among `params` are kept in `buffers` and left alone. Setting `opt.lr = 0.01` writes the
    learning-rate tensor, so captured steps see the new rate. Raises UserError if no parameter is
    left to train, one is in two groups, a group has an unknown option, or they are on several
    devices; DTypeError for parameters that hold no floats; ShapeError or DeviceError for a tensor
    as an option that does not fit; ArgumentError for an argument of another kind.
    """

    param_groups: list[ParameterGroup]
    buffers: list[Tensor]
    device: Placement  # of the parameters

    def __init__(self, params: Params, lr: float, **options: object) -> None:
        self.param_groups, self.buffers = [], []
        for given in self._as_groups(params):
            unknown = given.keys() - {"params", "lr"} - options.keys()
            if unknown:
                raise UserError(
                    f"[{type(self).__name__}] a group has the unknown options "
                    f"{', '.join(sorted(unknown))}; known: params, lr, {', '.join(options)}"
                )
            trained = self._trained(given["params"])
            if trained:
                own = {key: given.get(key, value) for key, value in options.items()}
                self.param_groups.append(ParameterGroup(trained, given.get("lr", lr), own))
        self._check_params()
        self.device = self.params[0].device

    def _as_groups(self, params: Params) -> list[Mapping[str, Any]]:
        items: list[object] = [params] if isinstance(params, Tensor) else list(params)
        groups = [item for item in items if isinstance(item, Mapping)]
        if not groups:
            return [{"params": items}]
        if len(groups) < len(items) or any("params" not in group for group in groups):
            raise UserError(
                f'[{type(self).__name__}] groups are dicts that have "params", without tensors '
                f"beside them"
            )
        return groups

    def _trained(self, params: Any) -> list[Tensor]:
        """Those of a group's tensors that take gradients, each once; the others are buffers."""
        tensors = [params] if isinstance(params, Tensor) else _unique(params)
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise UserError(
                    f"[{type(self).__name__}] trains tensors, not a {type(tensor).__name__}; "
                    "nn.state.get_parameters(model) lists a model's"
                )
            if tensor.requires_grad is None:
                tensor.requires_grad = True
        self.buffers += [t for t in tensors if not t.requires_grad]
        return [t for t in tensors if t.requires_grad]

    def _check_params(self) -> None:
        name, params = type(self).__name__, self.params
        if not params:
            raise UserError(f"[{name}] needs at least one tensor that requires a gradient")
        if any(t.dtype.is_complex for t in params):
            raise UserError(f"[{name}] trains real numbers: give parameters as their parts")
        if len(_unique(params)) < len(params):
            raise UserError(f"[{name}] a parameter is in two groups")
        devices = {str(t.device) for t in params}
        if len(devices) > 1:
            raise UserError(
                f"[{name}] parameters are on several devices: {', '.join(sorted(devices))}; "
                f"use one optimiser a device in an OptimizerGroup"
            )

    @property
    def params(self) -> list[Tensor]:
        """The parameters of all groups, in their shapes and dtypes: a new list."""
        return [t for group in self.param_groups for t in group["params"]]

    @property
    def lr(self) -> Tensor:
        """The learning rate of the first group, a float32 Tensor of shape (1,).

        Setting it raises UserError where there are several groups.
        """
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: Tensor | float) -> None:
        if len(self.param_groups) > 1:
            raise UserError(
                f"[{type(self).__name__}] has no one learning rate; "
                f'set param_groups[i]["lr"] instead'
            )
        self.param_groups[0]["lr"] = value

    def zero_grad(self) -> None:
        """Forget the gradients, so that the next `backward` does not add to them."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Update every parameter from its gradient, and compute the new values now."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Update lazily: the tensors whose `realize` performs the step, in their shapes and dtypes.

            loss.realize(*opt.schedule_step())     # one schedule for the loss and the step

        Raises UserError naming the first parameter that has no gradient.
        """
        gradients = iter([self._gradient(index, p) for index, p in enumerate(self.params)])
        for group in self.param_groups:
            own = [next(gradients) for _ in group["params"]]
            for param, value in zip(group["params"], self._step(group, own), strict=True):
                with Tensor.no_grad():
                    param.assign(value.cast(param.dtype))
        state = [t for group in self.param_groups for t in group.state_tensors()]
        return [*self.params, *self.buffers, *state]

    def _gradient(self, index: int, param: Tensor) -> Tensor:
        if param.grad is None:
            raise UserError(
                f"[{type(self).__name__}.step] parameter {index} of shape {param.shape} has no "
                f"gradient: call backward() on a loss that depends on it before step()"
            )
        return param.grad.detach().to(param.device).cast(dtypes.float32)

    def _step(self, group: ParameterGroup, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The new values of the group's parameters; assigns to the group's state on the way."""
        raise NotImplementedError(f"{type(self).__name__} does not define _step")


@explained
class OptimizerGroup(Optimizer):
    """Several optimisers that step as one, such as one for the matrices and one for the rest.

    Parameters are floats of any shape. Raises UserError for none.
    """

    optimizers: tuple[Optimizer, ...]

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise UserError("[OptimizerGroup] needs at least one optimiser")
        self.optimizers = optimizers

    # Only `optimizers` holds them, so that each has one name in the state.
    @property
    def param_groups(self) -> list[ParameterGroup]:
        """The groups of all optimisers: a new list."""
        return [group for opt in self.optimizers for group in opt.param_groups]

    @property
    def buffers(self) -> list[Tensor]:
        """The buffers of all optimisers, in their shapes and dtypes: a new list."""
        return [t for opt in self.optimizers for t in opt.buffers]

    @property
    def device(self) -> Placement:
        """The device of the first optimiser's parameters."""
        return self.optimizers[0].device

    def __getitem__(self, index: int) -> Optimizer:
        return self.optimizers[index]

    def __len__(self) -> int:
        return len(self.optimizers)

    @property
    def lr(self) -> Tensor:
        """The first's learning rate, float32 of shape (1,).

        Set each by itself, as in `group[1].lr = 0.1`.
        """
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, value: Tensor | float) -> None:
        raise UserError("[OptimizerGroup] has no one learning rate; set group[i].lr instead")

    def zero_grad(self) -> None:
        """Forget the gradients of all of them."""
        for opt in self.optimizers:
            opt.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        """What `Optimizer.schedule_step` gives, of all of them, in their shapes and dtypes.

        Raises UserError.
        """
        return [t for opt in self.optimizers for t in opt.schedule_step()]


def _unique(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each tensor object once, in order: a tied weight must not be stepped twice."""
    return list({id(t): t for t in tensors}.values())
