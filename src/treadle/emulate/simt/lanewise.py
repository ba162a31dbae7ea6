"""Functions that do for each lane what has no vector instruction: a loop over a scalar function."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.simt.emit import Emitter

__all__ = ["lanewise"]


def lanewise(
    e: Emitter, name: str, kinds: tuple[str, ...], result: str, scalar: str, values: tuple[str, ...]
) -> str:
    """Applies `scalar`, lines of IR that make %r of %x0, %x1..., to each lane of vector values.

    `kinds` are the scalar types of the values, `result` that of %r. The loop is a function of its
    own, made once a module under `name`.
    """
    shapes = [e.lanes(kind) for kind in kinds]
    slots = range(len(kinds))
    parameters = ", ".join(f"{shape} %a{i}" for i, shape in enumerate(shapes))
    allocas = "\n".join(
        f"  %p{i} = alloca {shapes[i]}\n  store {shapes[i]} %a{i}, ptr %p{i}" for i in slots
    )
    loads = "\n".join(
        f"  %q{i} = getelementptr {kinds[i]}, ptr %p{i}, i64 %n\n"
        f"  %x{i} = load {kinds[i]}, ptr %q{i}"
        for i in slots
    )
    shape = e.lanes(result)
    function = e.need(
        name,
        f"""define internal {shape} @{name}({parameters}) noinline {{
entry:
  %out = alloca {shape}
{allocas}
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
{loads}
{scalar}
  %to = getelementptr {result}, ptr %out, i64 %n
  store {result} %r, ptr %to
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {e.machine.width}
  br i1 %more, label %loop, label %done
done:
  %all = load {shape}, ptr %out
  ret {shape} %all
}}
""",
    )
    arguments = ", ".join(f"{shapes[i]} {values[i]}" for i in slots)
    return e.op(f"call {shape} {function}({arguments})")
