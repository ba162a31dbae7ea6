"""Prepared call lists can be patched in place and replayed."""

from treadle.runtime.cpu import Entry, Launch, Phase


def test_arguments_and_variables_are_patched_in_place(cpu, kernels, numbers):
    (a, counts), (b, first), (c, second) = numbers(8), numbers(8), numbers(8)
    counts[:] = memoryview(bytearray(64)).cast("q")
    for i in range(8):
        counts[i] = i
    mirror = Phase(kernels.address("mirror"), 8, 8)
    mark = Phase(kernels.address("mark"), 8, 8)
    calls = cpu.call_list(
        [Launch([mark], [a.pointer]), Launch([mirror], [a.pointer, b.pointer], [8, 10])]
    )
    assert len(calls) == 2
    calls.run()
    assert list(first) == [80, 70, 60, 50, 40, 30, 20, 10]
    calls.set_arg(1, 1, c.pointer)
    calls.set_var(1, 1, -1)
    calls.run()
    assert list(first) == [80, 70, 60, 50, 40, 30, 20, 10]
    assert list(second) == [-9, -8, -7, -6, -5, -4, -3, -2]


def test_a_list_keeps_what_it_is_told_to(cpu, compiler, kernel_object, numbers):
    buffer, counts = numbers(4)
    library = cpu.load(kernel_object, [Entry("mark", 1)])
    launch = Launch([Phase(library.address("mark"), 4, 4)], [buffer.pointer])
    calls = cpu.call_list([launch], keep=(library, buffer))
    del library, buffer
    calls.run()
    assert list(counts) == [1, 1, 1, 1]
