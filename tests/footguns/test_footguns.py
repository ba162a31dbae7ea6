"""One case for each surprise that users of tensor libraries know: it works, or it raises."""

import copy
import multiprocessing
import operator
import pickle
import sys
import threading

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, Variable, dtypes, nn
from treadle.errors import (
    DTypeError,
    IndexOutOfRange,
    JitError,
    ShapeError,
    TreadleError,
    UserError,
)  # fmt: skip


def test_a_view_keeps_the_values_it_had_when_it_was_taken():
    x = Tensor([1.0, 2.0, 3.0]).realize()
    view = x[1:]
    x[1] = 20
    assert x.tolist() == [1, 20, 3]
    assert view.tolist() == [2, 3]


def test_the_truth_value_of_several_elements_is_refused():
    with pytest.raises(TreadleError, match="any"):
        bool(Tensor([1.0, 2.0]) > 0)
    assert bool(Tensor([3.0]) > 0)


def test_tensors_hash_by_identity_and_compare_by_element():
    a, b = Tensor([1.0, 2.0]), Tensor([1.0, 5.0])
    assert (a == b).tolist() == [True, False]
    assert len({a, b, a}) == 2


def test_iterating_gives_the_rows_and_a_scalar_has_none():
    assert [row.tolist() for row in Tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises((TreadleError, TypeError)):
        list(Tensor(1.0))


def test_a_deep_copy_has_memory_of_its_own():
    x = Tensor([1.0, 2.0]).realize()
    y = copy.deepcopy(x)
    x.assign(x * 10).realize()
    assert y.tolist() == [1, 2]


def test_a_tensor_survives_pickling():
    x = Tensor([[1.5, 2.5]], requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.tolist() == [[1.5, 2.5]]
    assert y.requires_grad


def test_the_training_flag_is_restored_after_an_exception():
    @Tensor.train()
    def fails():
        assert Tensor.training
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not Tensor.training


def test_dropout_does_nothing_outside_training():
    x = Tensor.ones(1000)
    assert x.dropout(0.5).sum().item() == 1000
    with Context(TRAINING=1):
        assert x.dropout(0.5).tolist().count(0.0) > 300


def test_the_same_seed_gives_the_same_numbers_and_calls_differ():
    Tensor.manual_seed(3)
    first, second = Tensor.rand(5).tolist(), Tensor.rand(5).tolist()
    Tensor.manual_seed(3)
    assert Tensor.rand(5).tolist() == first
    assert first != second


def test_an_index_must_be_an_integer():
    with pytest.raises((TreadleError, TypeError, IndexError)):
        Tensor([1.0, 2.0])[1.5]


def test_python_numbers_do_not_widen_a_tensor():
    half = Tensor(np.ones(3, np.float16))
    assert (half * 2.5).dtype.name == "float16"
    assert (Tensor([1, 2]) * 2.5).dtype.name == "float32"
    assert (Tensor([1, 2]) / 2).dtype.name == "float32"


def test_gradients_add_up_until_they_are_cleared():
    x = Tensor([2.0], requires_grad=True)
    (x * 3).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6]


def test_printing_a_lazy_tensor_computes_nothing():
    x = Tensor([1.0]) + 1
    assert "lazy" in repr(x)
    assert not x.is_realized


# -- memory: views, assignments, aliases --


def test_assigning_to_a_tensor_leaves_what_was_computed_from_it():
    x = Tensor([1.0, 2.0]).realize()
    y = x * 10
    x.assign(x + 1)
    z = x * 10
    assert (y.tolist(), z.tolist()) == ([10, 20], [20, 30])


def test_assigning_to_a_view_changes_the_tensor_it_shows():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    x[0].assign(Tensor([9.0, 9.0])).realize()
    assert x.tolist() == [[9, 9], [3, 4]]


def test_a_value_that_does_not_fit_changes_nothing():
    x = Tensor([1.0, 2.0]).realize()
    with pytest.raises(ShapeError):
        x[0:1] = Tensor([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError):
        x.assign(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(DTypeError):
        x += Tensor([[1.0], [2.0]])
    assert x.tolist() == [1, 2]


def test_an_assignment_that_reads_what_it_overwrites_reads_the_old_values():
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    x[1:] = x[:-1]
    assert x.tolist() == [1, 1, 2, 3]
    x.assign(x.flip(0))
    assert x.tolist() == [3, 2, 1, 1]


def test_swapping_two_tensors_by_assignment_needs_the_old_values():
    a, b = Tensor([1.0]).realize(), Tensor([2.0]).realize()
    old = a.clone()
    a.assign(b)
    b.assign(old)
    assert (a.item(), b.item()) == (2, 1)


def test_host_arrays_are_copied_both_ways():
    array = np.array([1.0, 2.0], np.float32)
    x = Tensor(array)
    array[0] = 9
    assert x.tolist() == [1, 2]
    x.numpy()[0] = 9
    assert x.tolist() == [1, 2]


def test_an_element_that_is_seen_several_times_is_no_place_to_write_to():
    x = Tensor([1.0])
    with pytest.raises(UserError, match="expanded view"):
        x.expand(3)[0] = 5
    with pytest.raises(UserError, match="view through padding"):
        x.pad((1, 1)).assign(0)
    assert x.tolist() == [1]
    y = x.expand(3).clone()
    y[0] = 5
    assert (y.tolist(), x.tolist()) == ([5, 1, 1], [1])


def test_one_tensor_under_two_names_is_one_tensor():
    x = Tensor([1.0, 2.0]).realize()
    y = x
    y += 1
    assert x.tolist() == [2, 3]


# -- copies, pickles, processes, threads --


def test_a_shallow_copy_keeps_its_values_when_the_other_changes():
    x = Tensor([1.0, 2.0]).realize()
    y = copy.copy(x)
    x += 10
    assert (x.tolist(), y.tolist()) == ([11, 12], [1, 2])


def test_a_copy_of_a_leaf_is_a_leaf_of_its_own():
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = copy.copy(x)
    (y * y).sum().backward()
    assert y.is_leaf
    assert x.grad is None
    assert y.grad.tolist() == [2, 4]


def test_a_deep_copy_takes_the_gradient_along():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    y = copy.deepcopy(x)
    x.grad = None
    assert y.is_leaf
    assert y.requires_grad
    assert y.grad.tolist() == [2, 4]


def test_a_deep_copy_of_tied_weights_stays_tied():
    x = Tensor([1.0], requires_grad=True)
    copied = copy.deepcopy({"encoder": x, "decoder": x})
    assert copied["encoder"] is copied["decoder"]
    assert copied["encoder"] is not x


def test_a_deep_copied_model_trains_on_its_own():
    model = nn.Linear(2, 1)
    other = copy.deepcopy(model)
    before = model.weight.numpy()
    optimiser = nn.optim.SGD([other.weight, other.bias], lr=1.0)
    with Tensor.train():
        other(Tensor([[1.0, 2.0]])).sum().backward()
        optimiser.step()
    np.testing.assert_array_equal(model.weight.numpy(), before)
    np.testing.assert_allclose(other.weight.numpy(), before - [[1, 2]], rtol=1e-6)


def test_a_tensor_keeps_its_place_in_a_dictionary_when_its_value_changes():
    x = Tensor([1.0]).realize()
    names = {x: "x"}
    x.assign(Tensor([2.0])).realize()
    x += 1
    assert names[x] == "x"
    assert Tensor([3.0]) not in names


def test_a_deep_copy_of_a_result_inside_a_graph_is_refused():
    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(UserError, match=r"copy .detach\(\)"):
        copy.deepcopy(x * 2)
    assert copy.deepcopy((x * 2).detach()).tolist() == [2]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_a_pickle_keeps_dtype_and_shape(dtype):
    x = Tensor([[1, 0], [3, 2]]).cast(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert (y.dtype, y.shape, y.device) == (x.dtype, (2, 2), x.device)
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_tensors_cross_processes_by_value(method):
    x = Tensor([1.0, 2.0]).realize() + 1
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(operator.mul, (x, 2)).get(timeout=60).tolist() == [4, 6]


def test_a_lazy_tensor_may_be_computed_by_several_threads_at_once():
    x = Tensor(np.arange(1000, dtype=np.float32))
    y = (x * 2).sum()
    found = []
    threads = [threading.Thread(target=lambda: found.append(y.item())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [999000.0] * 8


def test_threads_that_assign_without_a_lock_leave_one_of_their_values():
    x = Tensor.zeros(16).contiguous().realize()
    rounds, refused = 60, []

    def work(number):
        for i in range(rounds):
            try:
                x.assign(x + 1 if number % 2 else Tensor.full((16,), float(i)))
                x.tolist()
            except UserError as error:  # a version went between two reads
                refused.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(set(x.tolist())) == 1
    assert 0 <= x[0].item() <= 3 * rounds
    assert all("lock" in str(error) for error in refused)


def test_what_another_thread_has_overwritten_is_refused_once_and_then_read_as_it_is():
    x = Tensor([1.0, 2.0]).realize()
    unnoticed = (x + 1).node  # as while another thread is about to make a tensor of it
    x.assign(x * 10).realize()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        y = Tensor._of(unnoticed, x.device)
        with pytest.raises(UserError, match="by one thread while another computed"):
            y.tolist()
        assert y.tolist() == [11, 21]
    finally:
        done.set()
        thread.join()


def test_modes_belong_to_the_thread_that_set_them():
    seen = []
    with Tensor.train(), Tensor.no_grad():
        w = Tensor([1.0], requires_grad=True)

        def look():
            seen.extend([Tensor.training, bool(Tensor.no_grad), (w * 2).requires_grad])

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [False, False, True]


# -- Python's protocols --


def test_in_asks_for_equal_elements():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 2 in x
    assert np.float32(4) in x
    assert Tensor([1.0, 9.0]) in x
    assert 9 not in x
    assert float("nan") not in Tensor([float("nan")])
    with pytest.raises(DTypeError, match="not with a str"):
        "2" in x  # noqa: B015


def test_comparing_with_what_is_no_number_is_no_element():
    x = Tensor([1.0, 2.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TypeError):
        x < None  # noqa: B015


def test_chained_comparisons_and_bool_operators_raise_instead_of_dropping_half():
    x = Tensor([1.0, 2.0])
    with pytest.raises(ShapeError, match="&"):
        0 < x < 3  # noqa: B015
    with pytest.raises(ShapeError, match="&"):
        bool((x > 0) and (x < 3))


def test_a_list_of_tensors_is_not_searched_by_value():
    with pytest.raises(ShapeError):
        [Tensor([1.0, 2.0])].index(Tensor([1.0, 2.0]))


def test_len_and_unpacking_follow_the_first_axis():
    x = Tensor([[1, 2], [3, 4]])
    first, second = x
    assert len(x) == 2
    assert (first.tolist(), second.tolist()) == ([1, 2], [3, 4])
    assert [row.tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
    for mistake in (len, list):
        with pytest.raises(TypeError, match="no axis to count or to iterate"):
            mistake(Tensor(1.0))


def test_one_number_formats_like_one():
    assert f"{Tensor(1.5):.2f}" == "1.50"
    assert f"{Tensor(7):04d}" == "0007"
    assert f"{Tensor([1.5]).realize()}".startswith("<Tensor [1.5]")
    with pytest.raises(ShapeError):
        f"{Tensor([1.5]):.2f}"


def test_an_integer_tensor_counts_and_indexes():
    assert list(range(Tensor(3))) == [0, 1, 2]
    assert "abc"[Tensor(1)] == "b"
    with pytest.raises(DTypeError):
        "abc"[Tensor(1.0)]


def test_unknown_attributes_cannot_be_set_by_mistake():
    x = Tensor([1.0])
    with pytest.raises(AttributeError):
        x.gard = None
    with pytest.raises(AttributeError):
        x.shape = (1, 1)


# -- NumPy on the left --


@pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2), np.int32(2), np.array(2.0)])
def test_a_numpy_value_on_the_left_gives_a_tensor(scalar):
    x = Tensor([1.0, 3.0])
    for result, expected in (
        (scalar * x, [2, 6]), (scalar - x, [1, -1]), (scalar / x, [2, 2 / 3]),
        (scalar**x, [2, 8]), (scalar > x, [True, False]), (scalar == x, [False, False]),
    ):  # fmt: skip
        assert isinstance(result, Tensor)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_a_numpy_array_on_the_left_gives_a_tensor_with_gradients():
    w = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = np.ones((2, 2), np.float32) @ w
    assert isinstance(y, Tensor)
    y.sum().backward()
    assert w.grad.tolist() == [[2, 2], [2, 2]]


# -- gradients and modes --


def test_changing_a_leaf_in_place_is_refused_as_in_pytorch():
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(UserError, match="no_grad"):
        w += 1
    with pytest.raises(UserError, match="no_grad"):
        w[0] = 5
    assert w.tolist() == [1, 2]
    with Tensor.no_grad():
        w -= 1
        w[0] = 7
    assert w.tolist() == [7, 1]
    assert w.is_leaf


def test_a_value_changed_after_its_use_does_not_change_the_gradient():
    w = Tensor([1.0, 2.0], requires_grad=True)
    kept = w * 1
    y = kept * kept
    kept += 100
    y.sum().backward()
    assert w.grad.tolist() == [2, 4]


def test_no_grad_and_detach_cut_the_graph():
    w = Tensor([2.0], requires_grad=True)
    with Tensor.no_grad():
        cut = w * 3
    assert not cut.requires_grad
    (w * w.detach() + cut).sum().backward()
    assert w.grad.tolist() == [2]


def test_the_mode_counts_when_the_operation_is_made_not_when_it_is_computed():
    with Tensor.train():
        dropped = Tensor.ones(1000).dropout(0.5)
    assert 300 < dropped.tolist().count(0.0) < 700


# -- random numbers --


def test_a_random_tensor_has_one_value_however_often_it_is_read():
    x = Tensor.rand(4)
    y = x + 0
    assert x.tolist() == x.tolist() == y.tolist()
    assert (x - x).abs().sum().item() == 0


def test_random_numbers_follow_the_order_of_calls_not_of_reading():
    Tensor.manual_seed(1)
    a, b = Tensor.rand(4), Tensor.rand(4)
    late = (b.tolist(), a.tolist())
    Tensor.manual_seed(1)
    a, b = Tensor.rand(4), Tensor.rand(4)
    assert (a.tolist(), b.tolist()) == late[::-1]


def test_a_new_seed_does_not_reach_what_was_drawn_before():
    Tensor.manual_seed(1)
    drawn = Tensor.rand(4)
    Tensor.manual_seed(2)
    other = Tensor.rand(4).tolist()
    Tensor.manual_seed(1)
    assert drawn.tolist() == Tensor.rand(4).tolist() != other


def test_a_captured_function_draws_new_numbers_each_time():
    @TinyJit
    def draw():
        return Tensor.rand(4).realize()

    drawn = [tuple(draw().tolist()) for _ in range(5)]
    assert len(set(drawn)) == 5


# -- integers and promotion --


def test_integers_wrap_like_pytorch_and_sums_are_wide():
    x = Tensor([250, 10], dtype=dtypes.uint8)
    assert (x + 10).tolist() == [4, 20]
    assert (Tensor([127], dtype=dtypes.int8) + 1).tolist() == [-128]
    assert Tensor([100, 100, 100], dtype=dtypes.int8).sum().item() == 300
    assert Tensor([True, True]).sum().item() == 2
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        x + 300


def test_dtypes_promote_as_in_pytorch():
    torch = pytest.importorskip("torch")
    names = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
             "float64"]  # fmt: skip
    for a in names:
        for b in names:
            expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
            found = (Tensor([1]).cast(a) * Tensor([1]).cast(b)).dtype
            assert str(expected) == f"torch.{found.name}", (a, b)


def test_in_place_results_never_change_the_dtype():
    x = Tensor([1, 2])
    with pytest.raises(DTypeError, match="float32"):
        x += 1.5
    x[0] = 7.9
    assert x.tolist() == [7, 2]


# -- captured functions --


def test_a_captured_function_sees_assignments_to_what_it_captured():
    w = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def scale(x):
        return (x * w).realize()

    x = Tensor([1.0, 1.0]).realize()
    for _ in range(3):
        assert scale(x).tolist() == [1, 2]
    w.assign(w * 10).realize()
    assert scale(x).tolist() == [10, 20]


@pytest.mark.parametrize("read", [Tensor.item, Tensor.tolist, Tensor.numpy, bool, float])
def test_reading_a_value_inside_a_captured_function_is_refused(read):
    @TinyJit
    def step(x):
        read(x.sum())
        return (x + 1).realize()

    x = Tensor([1.0, 2.0]).realize()
    step(x)
    with pytest.raises(JitError, match="Return the tensor and read it outside"):
        step(x)


def test_results_of_a_captured_function_keep_their_values():
    @TinyJit
    def step(x):
        return (x + 1).realize()

    results = [step(Tensor([float(n)]).realize()) for n in range(6)]
    assert [r.item() for r in results] == [1, 2, 3, 4, 5, 6]


def test_negative_and_large_places_raise_where_the_host_knows_them():
    x = Tensor([1.0, 2.0])
    assert x[-1].item() == 2
    for place in (2, -3, [0, 5]):
        with pytest.raises(IndexOutOfRange):
            x[place]


def test_a_tensor_is_freed_when_its_last_name_goes():
    x = Tensor([1.0]).realize()
    assert sys.getrefcount(x) == 2


def test_training_and_evaluation_are_captured_apart():
    @TinyJit
    def layer(x):
        return (x * 2).dropout(0.5).realize()

    x = Tensor.ones(1000).contiguous().realize()
    for training in (False, True, False, True, True, False, True):
        with Context(TRAINING=int(training)):
            found = layer(x).tolist()
        assert (found.count(0.0) > 300) is training


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copied_optimiser_goes_on_by_itself(copied):
    weights = [Tensor([1.0, 2.0], requires_grad=True), Tensor([1.0, 2.0], requires_grad=True)]
    optimisers = [nn.optim.Adam([w], lr=0.1) for w in weights]

    def step(optimiser):
        optimiser.zero_grad()
        (optimiser.params[0] ** 2).sum().backward()
        optimiser.step()

    for optimiser in optimisers:
        step(optimiser)
    kept = weights[0].tolist()
    other = copied(optimisers[0])
    assert other.lr is not optimisers[0].lr
    for optimiser in (other, optimisers[1]):
        optimiser.lr = 0.05
        step(optimiser)
    np.testing.assert_array_equal(other.params[0].numpy(), weights[1].numpy())
    assert weights[0].tolist() == kept
    assert optimisers[0].lr.item() == pytest.approx(0.1)


def test_a_copy_of_a_captured_function_captures_anew():
    class Model:
        def __init__(self):
            self.weight = Tensor([2.0]).realize()
            self.run = TinyJit(operator.mul)

    model = Model()
    for _ in range(3):
        model.run(Tensor([3.0]).realize(), model.weight)
    other = copy.deepcopy(model)
    assert other.run is not model.run
    assert other.run.calls == 0
    for n in range(4):
        assert other.run(Tensor([float(n)]).realize(), other.weight).tolist() == [2.0 * n]


def test_a_recurrent_model_survives_pickling_and_keeps_its_values():
    model, x = nn.LSTM(2, 3, bidirectional=True), Tensor.ones(4, 1, 2)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other(x)[0].numpy(), model(x)[0].numpy())


def test_slices_by_two_values_of_one_variable_in_one_computation_are_refused():
    x = Tensor.zeros(8).contiguous().realize()
    for place in range(3):
        n = Variable("n", 0, 7).bind(place)
        x[n : n + 1] = place + 1.0
    with pytest.raises(UserError, match=r"n is bound to 0 and to 1 .* realize\(\)"):
        x.tolist()
