"""AMD's code objects: what is linked, what an image says of its kernels, and what is refused."""

import shutil
import struct
import subprocess
from functools import cache

import pytest

from treadle.compile.llvm import LLVMCompiler
from treadle.errors import InternalError
from treadle.runtime.hardware.codeobject import Argument, link
from treadle.runtime.hardware.elf import read_object
from treadle.target import AMD_CHIPS, amd_target

# A kernel that reads a table of the module's by its own number, which LLVM finds by a distance.
TABLE = """
target triple = "amdgcn-amd-amdhsa"
@table = internal addrspace(4) constant [70 x i32] [{entries}]
@shared = internal addrspace(3) global [96 x i32] poison, align 16
define amdgpu_kernel void @look_up(ptr addrspace(1) %out, i32 %n) #0 {{
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %from = getelementptr [70 x i32], ptr addrspace(4) @table, i32 0, i32 %i
  %v = load i32, ptr addrspace(4) %from
  %s = getelementptr i32, ptr addrspace(3) @shared, i32 %i
  store i32 %n, ptr addrspace(3) %s
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %v, ptr addrspace(1) %to
  ret void
}}
define amdgpu_kernel void @other() #0 {{
  ret void
}}
declare i32 @llvm.amdgcn.workitem.id.x()
attributes #0 = {{ "amdgpu-no-implicitarg-ptr" "amdgpu-flat-work-group-size"="64,64" }}
""".format(entries=", ".join(f"i32 {n * n}" for n in range(70)))
REL64, LOW, HIGH = 5, 10, 11


@cache
def compiled(chip="gfx1100", text=TABLE):
    return LLVMCompiler(amd_target(chip)).compile(text)


def table_in(image):
    """Where the table lies."""
    return image.data.index(struct.pack("<8I", *(n * n for n in range(8))))


def relocations(code):
    return {
        section.name: [(one.kind, one.offset, one.symbol.name) for one in section.relocations]
        for section in read_object(code).sections if section.relocations
    }  # fmt: skip


@pytest.mark.parametrize("chip", AMD_CHIPS)
def test_distances_between_code_descriptors_and_constants_are_filled_in(chip):
    code = compiled(chip)
    image = link(code)
    of_text = relocations(code)[".text"]
    assert {kind for kind, _, _ in of_text} <= {LOW, HIGH, REL64}
    assert [kind for kind, _, _ in relocations(code)[".rodata"]] == [REL64, REL64]
    at = image.kernels["look_up"].entry
    low, high = (
        next(at + offset for kind, offset, _ in of_text if kind == which) for which in (LOW, HIGH)
    )
    (distance,) = struct.unpack("<q", image.data[low : low + 4] + image.data[high : high + 4])
    # It counts from behind s_getpc, which an instruction of 4 bytes follows, on gfx12 another one.
    assert low - (8 if chip.startswith("gfx12") else 4) + distance == table_in(image)


def test_a_kernel_says_what_it_needs_and_where_its_arguments_lie():
    image = link(compiled())
    kernel, other = image.kernels["look_up"], image.kernels["other"]
    assert kernel.descriptor.group_bytes == 4 * 96
    assert kernel.descriptor.kernarg_bytes == 12
    assert kernel.arguments == (Argument(0, 8, "global_buffer"), Argument(8, 4, "by_value"))
    assert (kernel.wave, kernel.most_work_items, kernel.spilled) == (32, 64, 0)
    assert other.arguments == ()
    assert other.at == kernel.at + 64
    assert {one.entry % image.alignment for one in (kernel, other)} == {0}
    (first,) = struct.unpack_from("<I", image.data, other.entry)
    assert first == 0xBFB00000  # s_endpgm


def patched(code, old, new, count=1):
    assert code.count(old) == count
    return code.replace(old, new)


def test_what_no_linker_could_resolve_is_named():
    text = TABLE.replace("@table = internal addrspace(4) constant [70 x i32] [", "; ").replace(
        "declare i32", "@table = external addrspace(4) constant [70 x i32]\ndeclare i32"
    )
    with pytest.raises(InternalError, match="the code needs 'table', which is nowhere"):
        link(compiled(text=text))


def test_files_that_are_none_for_this_linker_are_refused():
    code = compiled()
    with pytest.raises(InternalError, match="no object file of 64 bits"):
        link(b"BC\xc0\xde")
    with pytest.raises(InternalError, match=r"object file of 100 bytes is broken"):
        link(code[:100])
    (text,) = (one for one in read_object(code).sections if one.name == ".text")
    place = struct.pack("<QQ", 0x100, text.size)  # where it is in the file, and how long
    too_long = patched(code, place, struct.pack("<QQ", 0x100, 1 << 20))
    with pytest.raises(InternalError, match="is broken: a section ends behind the file"):
        link(too_long)
    other_machine = code[:18] + struct.pack("<H", 62) + code[20:]
    with pytest.raises(InternalError, match="machine 62 and type 1 is no relocatable AMDGPU"):
        link(other_machine)


def test_a_relocation_that_is_not_known_is_named():
    code = compiled()
    info = next(struct.pack("<QI", offset, kind) for kind, offset, _ in relocations(code)[".text"])
    with pytest.raises(InternalError, match="relocation 77 of"):
        link(patched(code, info, info[:8] + struct.pack("<I", 77)))


def test_a_descriptor_that_the_note_contradicts_is_refused():
    code = compiled()
    of_shared = struct.pack("<III", 4 * 96, 0, 12)
    with pytest.raises(InternalError, match=r"\(512, 0, 12, 32\) by its descriptor, \(384, 0, 12"):
        link(patched(code, of_shared, struct.pack("<III", 512, 0, 12)))


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100", "gfx1201"])
def test_code_is_what_lld_makes_of_it_but_for_distances(chip, tmp_path):
    lld = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if lld is None:
        pytest.skip("there is no ld.lld: `apt-get install lld-22` brings it")
    source, linked = tmp_path / "in.o", tmp_path / "out.so"
    source.write_bytes(compiled(chip))
    subprocess.run([lld, "-shared", source, "-o", linked], check=True)
    theirs, mine = read_object(linked.read_bytes()), link(compiled(chip))
    by_name = {section.name: section for section in theirs.sections}
    assert {"look_up.kd", "other.kd"} <= set(theirs.symbols)
    of_text = {offset + n for kind, offset, _ in relocations(compiled(chip))[".text"]
               for n in range(4)}  # fmt: skip
    start = mine.kernels["look_up"].entry
    text = by_name[".text"].data
    differ = {n for n, byte in enumerate(text) if mine.data[start + n] != byte}
    assert differ <= of_text
