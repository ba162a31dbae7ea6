"""What other libraries call when they let go of memory that treadle exported, as LLVM IR text.

    dlpack_ir()  ->  "define void @release_legacy(ptr %tensor) ..."

A `release` function is the deleter of a DLPack structure, a `drop` function the destructor of its
capsule, which releases the memory if nobody has taken the capsule. They may be called on any
thread, with or without the interpreter's lock, and while an exception is on its way, which a
function in Python could not be: returning with an exception set is an error of its own.
"""

from __future__ import annotations

import ctypes

__all__ = ["DLPACK_SYMBOLS", "dlpack_ir", "interpreter_addresses"]

# Capsule name, and where the owner stands in its structure (runtime/dlpack.py).
_FORMS = {"legacy": ("dltensor", 48), "versioned": ("dltensor_versioned", 8)}

DLPACK_SYMBOLS = tuple(f"{role}_{form}" for form in _FORMS for role in ("release", "drop"))

_INTERPRETER = (
    "PyCapsule_GetPointer", "PyCapsule_IsValid", "PyErr_Fetch", "PyErr_Restore",
    "PyGILState_Ensure", "PyGILState_Release", "Py_DecRef", "Py_IsInitialized",
)  # fmt: skip

# After the interpreter has ended there is nothing left to let go of.
_LET_GO = """
declare i32 @Py_IsInitialized()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)

define internal void @let_go(ptr %owner) {
entry:
  %kind = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %initialized = call i32 @Py_IsInitialized()
  %ended = icmp eq i32 %initialized, 0
  br i1 %ended, label %out, label %drop
drop:
  %lock = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %kind, ptr %value, ptr %trace)
  call void @Py_DecRef(ptr %owner)
  %kind_set = load ptr, ptr %kind
  %value_set = load ptr, ptr %value
  %trace_set = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %kind_set, ptr %value_set, ptr %trace_set)
  call void @PyGILState_Release(i32 %lock)
  br label %out
out:
  ret void
}
"""

_FORM = """
@name_FORM = internal constant [LENGTH x i8] c"NAME\\00"

define void @release_FORM(ptr %tensor) {
  %place = getelementptr i8, ptr %tensor, i64 OFFSET
  %owner = load ptr, ptr %place
  call void @let_go(ptr %owner)
  ret void
}

define void @drop_FORM(ptr %capsule) {
entry:
  %valid = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @name_FORM)
  %taken = icmp eq i32 %valid, 0
  br i1 %taken, label %out, label %release
release:
  %tensor = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @name_FORM)
  call void @release_FORM(ptr %tensor)
  br label %out
out:
  ret void
}
"""


def dlpack_ir() -> str:
    """The module that defines DLPACK_SYMBOLS, for any target with 64-bit addresses."""
    text = _LET_GO
    for form, (name, offset) in _FORMS.items():
        body = _FORM.replace("FORM", form).replace("NAME", name).replace("OFFSET", str(offset))
        text += body.replace("LENGTH", str(len(name) + 1))
    return text


def interpreter_addresses() -> dict[str, int]:
    """Where the functions of Python's C interface are that the module calls."""
    api = ctypes.pythonapi
    return {name: _address(getattr(api, name)) for name in _INTERPRETER}


def _address(function: object) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value  # pyright: ignore[reportArgumentType]
    assert found is not None  # a function that was found is somewhere
    return found
