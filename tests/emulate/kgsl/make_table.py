"""Mesa's description of Adreno's registers and packets (rnndb XML) to the package's table.

    python -m tests.emulate.kgsl.make_table .judges/mesa/src/freedreno/registers/adreno

Of packets the opcodes of A6XX and the fields of those that DOMAINS names, of registers those of
A6XX. A field is its lowest and highest bit, and by how much its number is moved up; of packets also
the word that it is in. Numbers of enums are those of EVENTS.
"""

import gzip
import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import treadle.emulate

TABLE = Path(treadle.emulate.__file__).parent / "kgsl" / "packets.json.gz"
DOMAINS = ("CP_LOAD_STATE6", "CP_EXEC_CS", "CP_EVENT_WRITE", "CP_WAIT_REG_MEM", "CP_REG_TO_MEM",
           "CP_MEM_WRITE", "CP_SET_MARKER", "CP_MEM_TO_MEM", "CP_WAIT_MEM_GTE", "CP_MEM_TO_REG",
           "CP_EXEC_CS_INDIRECT", "A6XX_TEX_CONST")  # fmt: skip
CHIP = 6


def tag(xml):
    return xml.tag.rpartition("}")[2]


def is_ours(xml):
    """Whether an element is one of A6XX."""
    if xml.attrib.get("varset", "chip") != "chip" or "variants" not in xml.attrib:
        return True
    for part in xml.attrib["variants"].split(","):
        first, dash, last = part.strip().partition("-")
        if first[:1] not in ("A", ""):
            return True  # of another set of variants
        least = int(first[1]) if first else 0
        most = (int(last[1]) if last else 9) if dash else least
        if least <= CHIP <= most:
            return True
    return False


def bits(xml):
    if "pos" in xml.attrib:
        return int(xml.attrib["pos"]), int(xml.attrib["pos"]), int(xml.attrib.get("shr", 0))
    return int(xml.attrib["low"]), int(xml.attrib["high"]), int(xml.attrib.get("shr", 0))


class Names:
    """Bitsets and enums of all files."""

    def __init__(self, folder):
        self.roots = {
            name: ET.parse(Path(folder) / f"{name}.xml").getroot()
            for name in ("adreno_pm4", "a6xx", "adreno_common")
        }
        self.bitsets, self.enums = {}, {}
        for root in self.roots.values():
            for xml in root.iter():
                if tag(xml) == "bitset":
                    self.bitsets[xml.attrib["name"]] = xml
                elif tag(xml) == "enum":
                    self.enums[xml.attrib["name"]] = xml

    def fields(self, register):
        """The fields of a register, those of its type among them."""
        found = {}
        kind = self.bitsets.get(register.attrib.get("type"))
        for xml in [*(kind if kind is not None else ()), *register]:
            if tag(xml) == "bitfield" and is_ours(xml):
                found[xml.attrib["name"]] = bits(xml)
        if not found and "low" in register.attrib:
            found[""] = bits(register)
        return found

    def values(self, name):
        return {
            str(int(xml.attrib["value"], 0)): xml.attrib["name"]
            for xml in self.enums[name]
            if tag(xml) == "value" and is_ours(xml)
        }


def registers(names):
    """Names by address, and the fields of those that have some."""
    found, fields = {}, {}

    def add(xml, base, prefix):
        address = base + int(xml.attrib["offset"], 0)
        name = prefix + xml.attrib["name"]
        found[address] = name
        if tag(xml) == "reg64":
            found[address + 1] = f"{name}_HI"
        if own := names.fields(xml):
            fields[name] = own

    def walk(parent, base, prefix):
        for xml in parent:
            if not is_ours(xml):
                continue
            if tag(xml) in ("reg32", "reg64"):
                add(xml, base, prefix)
            elif tag(xml) == "stripe":
                walk(xml, base, prefix)
            elif tag(xml) == "array":
                start, step = int(xml.attrib["offset"], 0), int(xml.attrib["stride"], 0)
                for i in range(int(xml.attrib["length"], 0)):
                    place = f"{prefix}{xml.attrib['name']}[{i}]"
                    if not len(xml):
                        for j in range(step):
                            found[base + start + i * step + j] = place
                    walk(xml, base + start + i * step, f"{place}.")

    (domain,) = (
        xml for xml in names.roots["a6xx"].iter()
        if tag(xml) == "domain" and xml.attrib["name"] == "A6XX"
    )  # fmt: skip
    walk(domain, 0, "")
    return found, fields


def packets(names):
    found = {}
    for xml in [*names.roots["adreno_pm4"].iter(), *names.roots["a6xx"].iter()]:
        if tag(xml) != "domain" or xml.attrib["name"] not in DOMAINS:
            continue
        rows = found[xml.attrib["name"]] = {}
        inner = [one for one in xml if tag(one) == "stripe" and is_ours(one)]
        for register in [*xml, *(one for stripe in inner for one in stripe)]:
            if tag(register) == "reg32" and is_ours(register):
                for name, place in names.fields(register).items():
                    rows[name] = [int(register.attrib["offset"], 0), *place]
    return found


def main(folder):
    names = Names(folder)
    found, fields = registers(names)
    table = {
        "opcodes": names.values("adreno_pm4_type3_packets"),
        "events": names.values("vgt_event_type"),
        "formats": names.values("a6xx_format"),
        "packets": packets(names),
        "registers": {str(address): name for address, name in sorted(found.items())},
        "fields": fields,
    }
    missing = set(DOMAINS) - set(table["packets"])
    if missing:
        raise SystemExit(f"there is no domain {sorted(missing)}")
    text = json.dumps(table, separators=(",", ":"))
    TABLE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
