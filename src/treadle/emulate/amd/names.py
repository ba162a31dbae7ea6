"""One name for each operation, which chips call differently: gfx11's.

canonical("v_ffbh_u32")  ->  "v_clz_i32_u32"
"""

from __future__ import annotations

import functools
import re

__all__ = ["canonical"]

_OLD = {
    "v_add_u32": "v_add_nc_u32", "v_sub_u32": "v_sub_nc_u32", "v_subrev_u32": "v_subrev_nc_u32",
    "v_addc_co_u32": "v_add_co_ci_u32", "v_subb_co_u32": "v_sub_co_ci_u32",
    "v_subbrev_co_u32": "v_subrev_co_ci_u32", "v_add_u16": "v_add_nc_u16",
    "v_sub_u16": "v_sub_nc_u16", "v_subrev_u16": "v_subrev_nc_u16", "v_add_i16": "v_add_nc_i16",
    "v_sub_i16": "v_sub_nc_i16", "v_add_i32": "v_add_nc_i32", "v_sub_i32": "v_sub_nc_i32",
    "v_mad_legacy_u16": "v_mad_u16", "v_mad_legacy_i16": "v_mad_i16",
    "s_add_co_u32": "s_add_u32", "s_sub_co_u32": "s_sub_u32", "s_add_co_i32": "s_add_i32",
    "s_sub_co_i32": "s_sub_i32", "s_add_co_ci_u32": "s_addc_u32", "s_sub_co_ci_u32": "s_subb_u32",
    "s_ff1_i32_b32": "s_ctz_i32_b32", "s_ff1_i32_b64": "s_ctz_i32_b64",
    "s_flbit_i32": "s_cls_i32", "s_flbit_i32_i64": "s_cls_i32_i64", "v_ffbh_i32": "v_cls_i32",
    "s_flbit_i32_b32": "s_clz_i32_u32", "s_flbit_i32_b64": "s_clz_i32_u64",
    "v_cvt_rpi_i32_f32": "v_cvt_nearest_i32_f32", "v_cvt_flr_i32_f32": "v_cvt_floor_i32_f32",
    "v_ffbl_b32": "v_ctz_i32_b32", "v_ffbh_u32": "v_clz_i32_u32",
    "s_addk_co_i32": "s_addk_i32", "v_mad_co_u64_u32": "v_mad_u64_u32",
    "v_mad_co_i64_i32": "v_mad_i64_i32", "v_dot2c_f32_f16": "v_dot2acc_f32_f16",
    "v_dot2c_f32_bf16": "v_dot2acc_f32_bf16",
}  # fmt: skip


def _exchange(old: re.Match[str]) -> str:
    stride = "_stride64" if old[2] else ""
    return f"ds_storexchg{'_2addr' if old[1] else ''}{stride}_rtn"


_FORMS = (
    (re.compile(r"^(v_cmpx?)_tru_"), r"\1_t_"),
    (re.compile(r"^(s_\w+?)n2_(saveexec_|wrexec_)?(b\d+)$"), r"\1_not1_\2\3"),
    (re.compile(r"^(s_and|s_or)n1_(saveexec_|wrexec_)(b\d+)$"), r"\1_not0_\2\3"),
    (re.compile(r"^(v_(?:pk_)?(?:min3?|max3?|med3|minmax|maxmin))_num_(f\d+)$"), r"\1_\2"),
    (re.compile(r"^ds_wrxchg(\d?)(st64)?_rtn"), _exchange),
    (re.compile(r"^(ds)_read(?=_|2)"), r"\1_load"),
    (re.compile(r"^(ds)_write(?=_|2)"), r"\1_store"),
    (re.compile(r"^(ds_(?:load|store))2st64_"), r"\1_2addr_stride64_"),
    (re.compile(r"^(ds_(?:load|store))2_"), r"\1_2addr_"),
    (re.compile(r"_dwordx(\d+)$"), lambda m: f"_b{32 * int(m[1])}"),
    (re.compile(r"^((?:s|global|flat|scratch|buffer|s_buffer)_(?:load|store))_dword$"), r"\1_b32"),
    (re.compile(r"_load_short_d16_hi$"), "_load_d16_hi_b16"),
    (re.compile(r"_load_short_d16$"), "_load_d16_b16"),
    (re.compile(r"_store_short_d16_hi$"), "_store_d16_hi_b16"),
    (re.compile(r"_store_byte_d16_hi$"), "_store_d16_hi_b8"),
    (re.compile(r"_load_([us])byte_d16(_hi)?$"),
     lambda m: f"_load_d16{m[2] or ''}_{'u' if m[1] == 'u' else 'i'}8"),
    (re.compile(r"_load_ubyte$"), "_load_u8"), (re.compile(r"_load_sbyte$"), "_load_i8"),
    (re.compile(r"_load_ushort$"), "_load_u16"), (re.compile(r"_load_sshort$"), "_load_i16"),
    (re.compile(r"_store_byte$"), "_store_b8"), (re.compile(r"_store_short$"), "_store_b16"),
    (re.compile(r"^((?:global|flat|buffer)_atomic)_(add|sub|csub|inc|dec)(_x2)?$"),
     lambda m: f"{m[1]}_{m[2]}_u{64 if m[3] else 32}"),
    (re.compile(r"^((?:global|flat|buffer)_atomic)_([us])(min|max)(_x2)?$"),
     lambda m: f"{m[1]}_{m[3]}_{'u' if m[2] == 'u' else 'i'}{64 if m[4] else 32}"),
    (re.compile(r"^((?:global|flat|buffer)_atomic)_f(min|max|cmpswap)(_x2)?$"),
     lambda m: f"{m[1]}_{m[2]}_f{64 if m[3] else 32}"),
    (re.compile(r"^((?:global|flat|buffer)_atomic_(?:min|max))_num(_f32)$"), r"\1\2"),
    (re.compile(r"^(ds_(?:min|max))_num(_rtn)?(_f\d+)$"), r"\1\2\3"),
    (re.compile(r"^ds_cmpst_"), "ds_cmpstore_"),
    (re.compile(r"^((?:global|flat|buffer)_atomic)_(and|or|xor|swap|cmpswap)(_x2)?$"),
     lambda m: f"{m[1]}_{m[2]}_b{64 if m[3] else 32}"),
)  # fmt: skip


@functools.cache
def canonical(operation: str) -> str:
    """The name that gfx11 has for an operation."""
    name = _OLD.get(operation, operation)
    for pattern, new in _FORMS:
        name = pattern.sub(new, name)
    return name
