"""Maps of matrix units: every place is held, `holders` undoes `place`, mistakes are refused."""

import pytest

from treadle.target import LDMATRIX, MMA, WGMMA, Fragment, MatrixUnit, fragment, mma_fragments

MAPS = {
    f"{family} {unit.name} {which}": held
    for family, units in (("mma", MMA), ("wgmma", WGMMA))
    for unit in units.values()
    for which, held in (("x", unit.x), ("y", unit.y), ("out", unit.out))
    if held is not None
}
MAPS["copies"] = fragment("mk", "m16 -2", "k16")


def every_place(held: Fragment):
    return [(lane, e, held.place(lane, e)) for lane in range(held.width) for e in range(held.count)]


@pytest.mark.parametrize("name", MAPS)
def test_every_place_is_held_as_often_as_the_others(name):
    held = MAPS[name]
    rows, columns = held.shape
    found = [place for _, _, place in every_place(held)]
    assert set(found) == {(row, column) for row in range(rows) for column in range(columns)}
    assert len(found) == rows * columns * (2 if name == "copies" else 1)


@pytest.mark.parametrize("name", MAPS)
def test_holders_are_those_that_a_place_is_found_with(name):
    held = MAPS[name]
    for lane, element, place in every_place(held):
        assert (lane, element) in held.holders(*place)
    assert len(held.holders(0, 0)) == (2 if name == "copies" else 1)


def test_maps_with_gaps_or_places_twice_are_refused():
    for lanes, elements in (("m8:2", "k2"), ("m8", "k2:2"), ("m8 m8", "k2")):
        with pytest.raises(ValueError, match="gap"):
            fragment("mk", lanes, elements)
    with pytest.raises(ValueError, match="no digit"):
        fragment("mk", "n8", "k2")


def test_units_whose_maps_do_not_fit_are_refused():
    x, y, out = mma_fragments(16, 16, 16)
    half = MMA["float16"]
    with pytest.raises(ValueError, match="holds"):
        MatrixUnit("a", "b", half.dtype, half.sums, 16, 8, 8, x, y, out)
    other = fragment("mn", "m8 n4:2", "n2 m2:8")
    with pytest.raises(ValueError, match="differently"):
        MatrixUnit("a", "b", half.dtype, half.sums, 16, 8, 16, x, y, other)


def test_words_are_counted_in_registers():
    x, y, _ = mma_fragments(16, 32, 8)
    assert x.words(1) == mma_fragments(16, 8, 32)[0]
    assert y.words(1) == mma_fragments(16, 8, 32)[1]
    with pytest.raises(ValueError, match="neighbours"):
        fragment("mk", "m8", "m2:8 k2").words(2)


def test_each_register_of_a_unit_is_a_matrix_that_ldmatrix_brings():
    for unit in MMA.values():
        of_x, of_y, _ = unit.held
        assert LDMATRIX.gives(of_x)
        assert LDMATRIX.gives(of_y.tiled((2, 1)))
    assert not LDMATRIX.gives(fragment("mk", "k4 m16", "k2:4"))


def test_sums_of_two_products_are_words_of_x_for_the_next():
    """What attention relies on: weights go from one product to the next in registers."""
    x, _, out = mma_fragments(16, 16, 16)
    for lane in range(32):
        for number in range(x.count):
            row, step = x.place(lane, number)
            ((holder, element),) = out.holders(row, step % 8)
            assert holder == lane
            assert element == number // 2 % 2 * 2 + number % 2


def test_parts_are_the_digits_of_rows_and_columns_the_highest_first():
    _, _, out = mma_fragments(16, 16, 16)
    assert out.parts(0) == ((2, False, 2), (8, True, 4))
    assert out.parts(1) == ((4, True, 1), (2, False, 1))


def test_a_map_of_several_matrices_goes_on_where_one_ends():
    out = WGMMA["float16"].out
    assert out is not None
    two = out.with_columns(64).tiled((1, 1), (2, 1))
    assert two.shape == (128, 64)
    assert two.width == 256
    assert two.place(128, 0) == (64, 0)
    assert two.lanes[-1] == (0, 8, 16)  # one number of a subgroup in all of them
    many = mma_fragments(16, 16, 16)[2].tiled((3, 2), (2, 4))
    assert many.shape == (96, 64)
    assert many.width == 256
    assert [many.place(*held) for held in ((32, 0), (128, 0), (0, 4), (0, 8))] == [
        (0, 16), (48, 0), (0, 8), (16, 0)
    ]  # fmt: skip
    _, y, _ = mma_fragments(16, 16, 16)
    assert y.tiled((2, 1)).place(0, y.count) == (8, 0)
