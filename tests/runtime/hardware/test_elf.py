"""Object files as this reader has them, beside pyelftools."""

import io

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from treadle.compile.llvm import LLVMCompiler
from treadle.runtime.hardware.elf import read_object
from treadle.target import AMD_CHIPS, amd_target

from .test_codeobject import TABLE


def by_pyelftools(data):
    """The same facts: header, sections, symbols, relocations and notes."""
    file = ELFFile(io.BytesIO(data))
    sections = list(file.iter_sections())
    symbols = [
        (symbol.name, symbol["st_value"], symbol["st_size"])
        for section in sections if isinstance(section, SymbolTableSection)
        for symbol in section.iter_symbols()
    ]  # fmt: skip
    relocations = {}
    for section in sections:
        if isinstance(section, RelocationSection):
            table = file.get_section(section["sh_link"])
            relocations[section["sh_info"]] = [
                (one["r_offset"], one["r_info_type"], table.get_symbol(one["r_info_sym"]).name)
                for one in section.iter_relocations()
            ]
    notes = [
        (note["n_name"], note["n_descsz"]) for section in sections
        if isinstance(section, NoteSection) for note in section.iter_notes()
    ]  # fmt: skip
    return (
        file["e_flags"], [(one.name, one["sh_size"], one["sh_addralign"]) for one in sections],
        symbols, relocations, notes,
    )  # fmt: skip


def by_treadle(data):
    found = read_object(data)
    return (
        found.flags,
        [(one.name, one.size, one.alignment) for one in found.sections],
        [(one.name, one.value, one.size) for one in found.symbol_table],
        {
            number: [(one.offset, one.kind, one.symbol.name) for one in section.relocations]
            for number, section in enumerate(found.sections) if section.relocations
        },
        [(name, len(note)) for section in found.sections for name, _, note in section.notes()],
    )  # fmt: skip


def agree(data):
    mine, theirs = by_treadle(data), by_pyelftools(data)
    assert mine[0] == theirs[0]
    # This reader has 1 for sections that have no alignment.
    assert mine[1] == [(name, size, max(1, alignment)) for name, size, alignment in theirs[1]]
    assert mine[2:] == theirs[2:]
    assert mine[2]
    assert mine[3]
    assert mine[4]


@pytest.mark.parametrize("chip", AMD_CHIPS)
def test_objects_of_llvm_hold_what_pyelftools_finds(chip):
    agree(LLVMCompiler(amd_target(chip)).compile(TABLE))
