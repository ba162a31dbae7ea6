"""What a decoder's fallback gives comes back as it is."""

import pytest

from treadle.runtime.cuvid import decode_annexb_to_tensors_auto, is_available


@pytest.mark.skipif(is_available(), reason="there is NVDEC here, which needs no fallback")
@pytest.mark.parametrize("value", [("a", "b"), ["a"], {"a": 1}, {1, 2}, "text", None], ids=repr)
def test_3_10_a_fallback_value_is_passed_through_unchanged(value):
    assert decode_annexb_to_tensors_auto(b"", fallback=lambda error: value) is value
