"""Mesa's description of Adreno's instructions (isaspec XML) to the package's table.

    python -m tests.emulate.ir3.make_table .judges/mesa/src/freedreno/isa

The table says what the XML does, but for comments and for what only an encoder needs. A bitset is a
form of an instruction or of an operand: fixed bits as three numbers, and cases, each a list of
fields, a text with the names of fields in braces, and an expression that says when it holds.
Expressions are trees: `["&&", ["==", "REPEAT", 0], ...]`, where a text is the name of a field.
"""

import gzip
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import treadle.emulate

TABLE = Path(treadle.emulate.__file__).parent / "ir3" / "encodings.json.gz"
NO_GENERATION = [0, (1 << 32) - 1]
# Operators of C from the loosest on.
LEVELS = (("||",), ("&&",), ("|",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"),
          ("+", "-"), ("*",))  # fmt: skip
TOKEN = re.compile(
    r"\s*(\{\w+\}|ISA_GPU_ID\(\)|0x[0-9a-fA-F]+|\d+(?=ULL)|\d+|\|\||&&|==|!=|<=|>=|<<|>>|[-+*|&<>!()])"
    r"(?:ULL)?"
)


def tokens(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).strip()
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is no token of an expression")
        found.append(match[1])
        at = match.end()
        while at < len(text) and text[at].isspace():
            at += 1
    return found


def tree(text):
    """The tree of an expression in C."""
    left = tokens(text)

    def level(n):
        if n == len(LEVELS):
            return single()
        found = level(n + 1)
        while left and left[0] in LEVELS[n]:
            found = [left.pop(0), found, level(n + 1)]
        return found

    def single():
        token = left.pop(0)
        if token == "!":
            return ["!", single()]
        if token == "(":
            found = level(0)
            if left.pop(0) != ")":
                raise ValueError(f"{text!r} lacks a bracket")
            return found
        if token == "ISA_GPU_ID()":
            return ["gpu"]
        return token[1:-1] if token[0] == "{" else int(token, 0)

    found = level(0)
    if left:
        raise ValueError(f"{text!r} goes on behind its end")
    return found


def place(xml):
    """The lowest and the highest bit of an element."""
    if "pos" in xml.attrib:
        return int(xml.attrib["pos"]), int(xml.attrib["pos"])
    return int(xml.attrib["low"]), int(xml.attrib["high"])


def pattern(xml):
    """Bits that are 1, bits that may be either, and all bits of a pattern."""
    low, high = place(xml)
    text = xml.text.strip()
    if len(text) != high - low + 1:
        raise ValueError(f"the pattern {text} has not {high - low + 1} bits")
    ones, either = (
        int("".join("1" if c == which else "0" for c in text), 2) << low for which in "1x"
    )
    return ones, either, ((1 << len(text)) - 1) << low


class Spec:
    """All files of the description, read."""

    def __init__(self, folder):
        self.expressions, self.enums, self.bitsets = {}, {}, []
        for path in sorted(Path(folder).glob("ir3*.xml")):
            for xml in ET.parse(path).getroot():
                if xml.tag == "expr":
                    self.expressions[xml.attrib["name"]] = tree(xml.text)
                elif xml.tag == "enum":
                    self.enums[xml.attrib["name"]] = {
                        value.attrib["val"]: value.attrib["display"] for value in xml
                        if value.tag == "value"
                    }  # fmt: skip
                elif xml.tag == "bitset":
                    self.bitsets.append(xml)
        self.parents = {xml.attrib["name"]: xml for xml in self.bitsets}

    def condition(self, xml):
        name = xml.attrib.get("expr")
        return self.expressions[name] if name else tree(xml.find("expr").text)

    def case(self, xml, condition):
        fields = {}
        for derived in xml.findall("derived"):
            width = int(derived.attrib.get("width", 1))
            fields[derived.attrib["name"]] = [
                0, width - 1, derived.attrib["type"], shown(derived), [], self.condition(derived),
            ]  # fmt: skip
        for field in xml.findall("field"):
            params = [
                [p.attrib["name"], p.attrib.get("as", p.attrib["name"])]
                for p in field.findall("param")
            ]
            fields[field.attrib["name"]] = [
                *place(field), field.attrib["type"], shown(field), params, None,
            ]  # fmt: skip
        asserts = [[*place(a), int(a.text.strip(), 2)] for a in xml.findall("assert")]
        text = None
        for display in xml.findall("display"):
            text = (display.text or "").strip()
        return [condition, text, fields, asserts]

    def bitset(self, xml):
        chain = [xml]
        while "extends" in chain[-1].attrib:
            chain.append(self.parents[chain[-1].attrib["extends"]])
        ones = either = mask = 0
        least, most = NO_GENERATION
        for each in chain:
            for found in each.findall("pattern"):
                a, b, c = pattern(found)
                ones, either, mask = ones | a, either | b, mask | c
            for gen in each.findall("gen"):
                least = max(least, int(gen.attrib.get("min", least)))
                most = min(most, int(gen.attrib.get("max", most)))
        cases = []
        for each in chain:  # a form's own cases come before those of what it extends
            cases += [self.case(o, self.condition(o)) for o in each.findall("override")]
            cases.append(self.case(each, None))
        return {
            "name": xml.attrib.get("displayname", xml.attrib["name"]), "gpus": [least, most],
            "ones": ones, "either": either, "mask": mask, "cases": cases,
            "root": chain[-1].attrib["name"],
        }  # fmt: skip


def shown(xml):
    text = xml.attrib.get("display")
    return None if text is None else text.strip()


def table(folder):
    spec = Spec(folder)
    extended = {xml.attrib.get("extends") for xml in spec.bitsets}
    roots = {}
    for xml in spec.bitsets:
        if xml.attrib["name"] not in extended:
            found = spec.bitset(xml)
            roots.setdefault(found.pop("root"), []).append(found)
    return {"enums": spec.enums, "bitsets": roots}


def main(folder):
    text = json.dumps(table(folder), separators=(",", ":"))
    TABLE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
