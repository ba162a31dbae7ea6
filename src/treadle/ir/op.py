"""The op table: every kind of Node, its arity and its meaning, in one place.

`Op` names a node; `INFO[op]` says how many sources it takes, how its dtype follows from theirs and
what it means. `ir/interpret.py` gives the executable meaning, `ir/verify.py` says where each op is
legal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

__all__ = [
    "ALU", "BINARY", "COMMUTATIVE", "COMPARE", "CUTS", "INFO", "MOVEMENT", "OF_COMPLEX", "SAME",
    "TERNARY", "TRANSCENDENTAL", "UNARY", "Op",
]  # fmt: skip


class Op(IntEnum):
    # values and storage
    CONST = auto()
    VARIABLE = auto()
    BIND = auto()
    BUFFER = auto()
    IOTA = auto()
    # movement
    RESHAPE = auto()
    EXPAND = auto()
    PERMUTE = auto()
    PAD = auto()
    SHRINK = auto()
    FLIP = auto()
    WINDOW = auto()
    UNWINDOW = auto()
    # elementwise, one source
    NEG = auto()
    RECIP = auto()
    SQRT = auto()
    EXP2 = auto()
    EXP = auto()
    LOG2 = auto()
    LOG = auto()
    LOG10 = auto()
    LOG1P = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    TANH = auto()
    ASINH = auto()
    ACOSH = auto()
    ATANH = auto()
    ERF = auto()
    ERFC = auto()
    ERFINV = auto()
    TRUNC = auto()
    FLOOR = auto()
    CEIL = auto()
    ROUND = auto()
    REAL = auto()
    IMAG = auto()
    CAST = auto()
    BITCAST = auto()
    # elementwise, two sources
    ADD = auto()
    SUB = auto()
    MUL = auto()
    FDIV = auto()
    IDIV = auto()
    MOD = auto()
    POW = auto()
    MAX = auto()
    MIN = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()
    SHR = auto()
    COMPLEX = auto()
    CMPLT = auto()
    CMPEQ = auto()
    CMPNE = auto()
    # elementwise, three sources
    WHERE = auto()
    FMA = auto()
    # whole-tensor
    REDUCE = auto()
    SCAN = auto()
    GATHER = auto()
    SCATTER = auto()
    SORT = auto()
    DISTRIBUTE = auto()
    CONTIGUOUS = auto()
    CONTIGUOUS_BACKWARD = auto()
    DETACH = auto()
    ALIAS = auto()
    CHECKED = auto()
    COPY = auto()
    HOST = auto()
    COLLECTIVE = auto()
    RECUR = auto()
    MULTI = auto()
    PART = auto()
    ASSIGN = auto()
    AFTER = auto()
    # kernels
    PARAM = auto()
    LOCAL = auto()
    REGISTER = auto()
    RANGE = auto()
    LOAD = auto()
    STORE = auto()
    PREFETCH = auto()
    LINE = auto()
    UPDATE = auto()
    TICKET = auto()
    END = auto()
    STAGE = auto()
    TUPLE = auto()
    ITEM = auto()
    BOX = auto()
    BARRIER = auto()
    AWAIT = auto()
    EXPECT = auto()
    COMMIT = auto()
    WAIT = auto()
    WORK_ITEM = auto()
    SUBGROUP = auto()
    BUTTERFLY = auto()
    QUICK_EXP2 = auto()
    SCALE = auto()
    HALVES = auto()
    FRAGMENT = auto()
    MMA = auto()
    WGMMA = auto()
    SINK = auto()
    LINEAR = auto()
    # vectors inside kernels
    BROADCAST = auto()
    LANES = auto()
    EXTRACT = auto()
    STACK = auto()
    SHUFFLE = auto()
    HREDUCE = auto()
    # patterns
    WILDCARD = auto()


@dataclass(frozen=True)
class OpInfo:
    """`arity` is the number of sources, -1 for any number; `meaning` is one line for readers.

    `numpy` is the NumPy function that says the same in float64, if there is one of that name.
    """

    arity: int
    meaning: str
    numpy: str | None = None


INFO: dict[Op, OpInfo] = {
    Op.CONST: OpInfo(0, "the scalar arg"),
    Op.VARIABLE: OpInfo(0, "an integer known at launch, arg.low <= value <= arg.high"),
    Op.BIND: OpInfo(2, "the variable src[0], bound to the constant src[1]"),
    Op.BUFFER: OpInfo(0, "the memory arg.token at arg.version, shape (arg.size,)"),
    Op.IOTA: OpInfo(0, "0, 1, ... arg.size - 1"),
    Op.RESHAPE: OpInfo(1, "same elements in row-major order, shape arg"),
    Op.EXPAND: OpInfo(1, "axes of size 1 repeated to shape arg"),
    Op.PERMUTE: OpInfo(1, "axis i of the result is axis arg[i] of the source"),
    Op.PAD: OpInfo(1, "arg[i] = (before, after) zeros added along axis i"),
    Op.SHRINK: OpInfo(1, "arg[i] = (begin, end) kept of axis i"),
    Op.FLIP: OpInfo(1, "axes arg reversed"),
    Op.WINDOW: OpInfo(1, "out[.., o, .., k] = in[.., o*stride + k*dilation, ..] on one axis"),
    Op.UNWINDOW: OpInfo(
        1, "adjoint of WINDOW: out[.., i, ..] = sum over o*stride + k*dilation = i"
    ),
    Op.NEG: OpInfo(1, "-a"),
    Op.RECIP: OpInfo(1, "1 / a, floats"),
    Op.SQRT: OpInfo(1, "square root"),
    Op.EXP2: OpInfo(1, "2 ** a", "exp2"),
    Op.EXP: OpInfo(1, "e ** a", "exp"),
    Op.LOG2: OpInfo(1, "logarithm to base 2", "log2"),
    Op.LOG: OpInfo(1, "natural logarithm", "log"),
    Op.LOG10: OpInfo(1, "logarithm to base 10", "log10"),
    Op.LOG1P: OpInfo(1, "natural logarithm of 1 + a", "log1p"),
    Op.SIN: OpInfo(1, "sine, radians", "sin"),
    Op.COS: OpInfo(1, "cosine, radians", "cos"),
    Op.TAN: OpInfo(1, "tangent, radians", "tan"),
    Op.TANH: OpInfo(1, "hyperbolic tangent", "tanh"),
    Op.ASINH: OpInfo(1, "inverse hyperbolic sine", "arcsinh"),
    Op.ACOSH: OpInfo(1, "inverse hyperbolic cosine", "arccosh"),
    Op.ATANH: OpInfo(1, "inverse hyperbolic tangent", "arctanh"),
    Op.ERF: OpInfo(1, "error function"),
    Op.ERFC: OpInfo(1, "1 - error function"),
    Op.ERFINV: OpInfo(1, "inverse error function"),
    Op.TRUNC: OpInfo(1, "rounded towards zero"),
    Op.FLOOR: OpInfo(1, "rounded down"),
    Op.CEIL: OpInfo(1, "rounded up"),
    Op.ROUND: OpInfo(1, "rounded to nearest, ties to even"),
    Op.REAL: OpInfo(1, "the real part of a complex number"),
    Op.IMAG: OpInfo(1, "the imaginary part of a complex number"),
    Op.CAST: OpInfo(
        1, "value converted; float to integer truncates, saturates at 32/64 bits, then wraps"
    ),
    Op.BITCAST: OpInfo(1, "bits reinterpreted, same width"),
    Op.ADD: OpInfo(2, "a + b; integers wrap; bool: or"),
    Op.SUB: OpInfo(2, "a - b; integers wrap"),
    Op.MUL: OpInfo(2, "a * b; integers wrap; bool: and"),
    Op.FDIV: OpInfo(2, "a / b, floats"),
    Op.IDIV: OpInfo(2, "floor(a / b), integers; 0 where b is 0"),
    Op.MOD: OpInfo(2, "a - b * floor(a / b), the sign of b, zeros too; integers: 0 where b is 0"),
    Op.POW: OpInfo(2, "a ** b, floats"),
    Op.MAX: OpInfo(
        2, "the larger, of equals (0.0 and -0.0) a, or either if arg is True; NaN if either is"
    ),
    Op.MIN: OpInfo(
        2, "the smaller, of equals (0.0 and -0.0) a, or either if arg is True; NaN if either is"
    ),
    Op.AND: OpInfo(2, "bitwise and"),
    Op.OR: OpInfo(2, "bitwise or"),
    Op.XOR: OpInfo(2, "bitwise exclusive or"),
    Op.SHL: OpInfo(2, "a << b; 0 where b is not below the width"),
    Op.SHR: OpInfo(2, "a >> b, arithmetic if signed; b clipped to the width"),
    Op.COMPLEX: OpInfo(2, "a + b i, floats"),
    Op.CMPLT: OpInfo(2, "a < b, bool"),
    Op.CMPEQ: OpInfo(2, "a == b, bool"),
    Op.CMPNE: OpInfo(2, "a != b, bool"),
    Op.WHERE: OpInfo(3, "b where a, else c"),
    Op.FMA: OpInfo(3, "a * b + c, rounded once"),
    Op.REDUCE: OpInfo(
        -1,
        "src[0] combined by arg.op over axes arg.axes (kept as size 1), or the RANGEs src[1:]; "
        "if arg.is_place, where on the one axis the extreme is, of equals the first, a NaN before "
        "all numbers",
    ),
    Op.SCAN: OpInfo(
        -1,
        "src[0] combined by arg.op with all before along arg.axis; if src[1] is there, the total "
        "is multiplied by that before each step",
    ),
    Op.GATHER: OpInfo(
        2,
        "out[a.., p.., b..] = src[0][a.., src[1][p..], b..] on axis arg.axis, or along it: "
        "out[a.., p, b..] = src[0][a.., src[1][a.., p, b..], b..]; 0 outside",
    ),
    Op.SCATTER: OpInfo(
        3,
        "src[0] with src[2][.., p, ..] combined by arg.op into place src[1][p] of axis arg.axis, "
        "or along it into place src[1][.., p, ..]; dropped outside",
    ),
    Op.SORT: OpInfo(
        1, "where the first arg.count of axis arg.axis in ascending order are; stable, unsigned"
    ),
    Op.DISTRIBUTE: OpInfo(
        3,
        "out[src[2][b, k]++] = src[0][b, i] for all b and, in order, i, where k = src[1][b, i]; "
        "shape arg, its places row-major",
    ),
    Op.CONTIGUOUS: OpInfo(1, "the same values, in memory of their own"),
    Op.CONTIGUOUS_BACKWARD: OpInfo(1, "the same values; the gradient in memory of its own"),
    Op.DETACH: OpInfo(1, "the same values, no gradient"),
    Op.ALIAS: OpInfo(1, "the same values, under a name of its own: arg, a Token"),
    Op.CHECKED: OpInfo(
        1, "the same integers, which index: one outside of arg.lowest..arg.size-1 is an error"
    ),
    Op.COPY: OpInfo(1, "the same values on device arg"),
    Op.HOST: OpInfo(
        -1,
        "result arg.number of the NumPy function arg.name (ir/lapack.py) on src and arg.options; "
        "its results have shapes arg.shapes and types arg.dtypes",
    ),
    Op.COLLECTIVE: OpInfo(
        -1,
        "what the call arg.kind of all processes of arg.group gives to this one, for what src is "
        "in each of them; in shape arg.shape",
    ),
    Op.RECUR: OpInfo(
        -1,
        "every state number arg.number of arg.steps steps, the first one too: src holds first "
        "states, then arg.sequences that have a row for each step, then what all steps read; "
        "arg.body makes the next states of them (see ir/recurrence)",
    ),
    Op.MULTI: OpInfo(
        -1, "src[i] on device arg.devices[i]: pieces of axis arg.axis, or equal copies if None"
    ),
    Op.PART: OpInfo(1, "what the process arg.to.devices.rank has of src[0], which lies as arg.to"),
    Op.ASSIGN: OpInfo(2, "write src[1] into the view src[0] of a buffer"),
    Op.AFTER: OpInfo(-1, "src[0], once the effects src[1:] have happened"),
    Op.PARAM: OpInfo(0, "kernel argument number arg.slot, memory of arg.size elements"),
    Op.LOCAL: OpInfo(0, "scratch memory of arg.size elements, one for each worker"),
    Op.REGISTER: OpInfo(
        -1,
        "a mutable scalar or vector, set to src[0] inside the RANGEs src[1:]; arg.part is the op "
        "of the reduction that it holds a part of: such a one begins at the identity",
    ),
    Op.RANGE: OpInfo(1, "0 <= value < src[0], looped as arg.kind says"),
    Op.LOAD: OpInfo(-1, "src[0][src[1]]; with gate src[2], src[3] where the gate is false"),
    Op.STORE: OpInfo(
        -1,
        "src[0][src[1]] = src[2], only where the gate src[3] holds; arg says how, if not as usual: "
        "STREAM (see lower/nontemporal_stores) or ASYNCHRONOUS (see lower/multi_buffering)",
    ),
    Op.PREFETCH: OpInfo(
        2,
        "a hint: src[0][src[1]] will soon be read, so bring it into the cache of level arg; it may "
        "be outside of the memory",
    ),
    Op.LINE: OpInfo(
        3, "memory: src[0] from src[1] on, or arg zeros where the gate src[2] does not hold"
    ),
    Op.UPDATE: OpInfo(
        -1,
        "register src[0] combined by arg with src[1], or set to it, at each step of the RANGEs "
        "src[2:]",
    ),
    Op.TICKET: OpInfo(
        -1, "the STAGE src[0] at its place, where one is added, at each step of the RANGEs src[1:]"
    ),
    Op.END: OpInfo(-1, "the effects src[:arg], looped over the RANGEs src[arg:]"),
    Op.STAGE: OpInfo(
        -1,
        "src[0], where src[1], kept at place src[2:2+n] of memory of n = len(arg.sizes) axes, "
        "over the RANGEs src[2+2n:]; read at place src[2+n:2+2n]; arg says in which memory, in how "
        "many buffers, how it is filled and how its lines are arranged",
    ),
    Op.TUPLE: OpInfo(-1, "all of src, which a REDUCE combines together (see ir/accumulators.py)"),
    Op.ITEM: OpInfo(1, "item arg of a TUPLE, or of a REDUCE or STAGE of one"),
    Op.BOX: OpInfo(
        -1,
        "the box of tensor arg in memory src[0] that begins at src[1:], zeros outside of the "
        "tensor: what a bulk copy puts into a STAGE. In a program src ends with the mbarrier (an "
        "array and a place in it) that counts the bytes which have arrived",
    ),
    Op.BARRIER: OpInfo(-1, "all work items of the workgroup have come here and see its memory"),
    Op.AWAIT: OpInfo(3, "the phase of parity src[2] of mbarrier src[0][src[1]] is over"),
    Op.EXPECT: OpInfo(2, "an arrival at mbarrier src[0][src[1]], where arg bytes are to arrive"),
    Op.COMMIT: OpInfo(
        -1, "this work item's asynchronous STOREs up to here are one more group of them"
    ),
    Op.WAIT: OpInfo(
        -1,
        "in a step of the RANGE src[0]: all but the latest arg groups of asynchronous STOREs have "
        "happened, and all work items of the workgroup have come here",
    ),
    Op.WORK_ITEM: OpInfo(
        0,
        'by arg.name: "work_item", this work item\'s number in its workgroup; "lane", its number '
        'among the work items of its subgroup; "lanes", how many those are',
    ),
    Op.SUBGROUP: OpInfo(
        1, "src[0] of all work items of the subgroup combined by arg, for each of them"
    ),
    Op.BUTTERFLY: OpInfo(
        1,
        "likewise by arg.op, of those work items of the subgroup whose numbers differ in the bits "
        "arg.steps alone",
    ),
    Op.QUICK_EXP2: OpInfo(
        1, "2 ** src[0] within 2 ** -21 of it, or 0 below 2 ** -126, for what is rounded to 16 bits"
    ),
    Op.SCALE: OpInfo(2, "src[0] * 2 ** src[1], which is whole, rounded once"),
    Op.HALVES: OpInfo(
        2, "a word of two floats of 16 bits: src[0], the low half, and src[1] rounded to dtype arg"
    ),
    Op.FRAGMENT: OpInfo(
        -1,
        "one word for each of a few 8 x 8 matrices of 16 bits in memory: work item 8 m + i of a "
        "subgroup reads the STAGE src[0], or names in src[0][src[1]], where line i of matrix m "
        "begins, and work item 4 g + t gets elements 2 t and 2 t + 1 of line g, or of column g "
        'if arg is True; or, if arg is "own", the words that begin there, at a multiple of their '
        "size, for each work item its own",
    ),
    Op.MMA: OpInfo(
        -1,
        "this work item's part of the product of two matrices of arg, a dtype's name, that the "
        "work items of its subgroup hold in words (see target/matrix)",
    ),
    Op.WGMMA: OpInfo(
        -1,
        "this work item's part of the product of two matrices in shared memory, which begin at the "
        "elements that the STAGEs src are read at (see optimize/warpgroup_units); or words of x "
        "are src first. In a program src is memory and place of either (or for x its words, or "
        "where a work item finds each pair of them) and, if it is left to the units until the next "
        "one, the mbarrier at which warps arrive when the one before is done, and whether there is "
        "one",
    ),
    Op.SINK: OpInfo(-1, "all of src"),
    Op.LINEAR: OpInfo(-1, "src, one after the other"),
    Op.BROADCAST: OpInfo(1, "every lane is src[0]"),
    Op.LANES: OpInfo(0, "lane number: 0, 1, ..."),
    Op.EXTRACT: OpInfo(-1, "lane arg, or until unrolled RANGEs are gone, lane src[1]"),
    Op.STACK: OpInfo(-1, "one lane from each source"),
    Op.SHUFFLE: OpInfo(2, "lanes arg of all lanes, those of src[0] before those of src[1]"),
    Op.HREDUCE: OpInfo(1, "all lanes combined by arg, as a balanced tree"),
    Op.WILDCARD: OpInfo(0, "in a pattern: anything"),
}

UNARY = frozenset(op for op in Op if Op.NEG <= op <= Op.BITCAST)
BINARY = frozenset(op for op in Op if Op.ADD <= op <= Op.CMPNE)
TERNARY = frozenset((Op.WHERE, Op.FMA))
ALU = UNARY | BINARY | TERNARY
TRANSCENDENTAL = frozenset(op for op in Op if Op.EXP2 <= op <= Op.ERFINV) | {Op.POW}
COMPARE = frozenset((Op.CMPLT, Op.CMPEQ, Op.CMPNE))
COMMUTATIVE = frozenset((Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.CMPEQ, Op.CMPNE))
CUTS = frozenset(
    (Op.COPY, Op.HOST, Op.COLLECTIVE, Op.RECUR)
)  # computed between kernels, by none of them
SAME = frozenset((Op.CONTIGUOUS_BACKWARD, Op.DETACH, Op.ALIAS, Op.CHECKED))  # nothing to compute
MOVEMENT = frozenset(op for op in Op if Op.RESHAPE <= op <= Op.UNWINDOW) - {Op.UNWINDOW}
# What takes complex numbers; transforms/complex_to_real makes reals of it before scheduling.
OF_COMPLEX = MOVEMENT | SAME | frozenset((
    Op.NEG, Op.RECIP, Op.REAL, Op.IMAG, Op.CAST, Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.CMPEQ,
    Op.CMPNE, Op.WHERE, Op.REDUCE, Op.SCAN, Op.GATHER, Op.SCATTER, Op.CONTIGUOUS, Op.COPY, Op.HOST,
    Op.COLLECTIVE,
    Op.RECUR, Op.MULTI, Op.PART, Op.ASSIGN, Op.AFTER, Op.SINK, Op.UNWINDOW,
))  # fmt: skip
