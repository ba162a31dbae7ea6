"""What the worker pool asks of an operating system, as LLVM IR text: one meaning, two systems.

    system_ir(target)  ->  "define internal void @lock(ptr %lock) ..."

Threads, locks and signals are the system's own (POSIX threads; on Windows slim locks and condition
variables). The memory of each is the pool's: 128 bytes are more than any system needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["pause_ir", "system_ir"]

_STACK_BYTES = 8 << 20

_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}
_PAUSE_DECLARATION = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}

# `CLOCK` stands for the number of CLOCK_MONOTONIC, `STACK` for a worker's stack in bytes.
_POSIX = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(ptr, ptr)
declare i32 @clock_gettime(i32, ptr)

define internal void @init(ptr %lock, ptr %work, ptr %done, ptr %attr) {
  call i32 @pthread_mutex_init(ptr %lock, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  call i32 @pthread_attr_init(ptr %attr)
  call i32 @pthread_attr_setstacksize(ptr %attr, i64 STACK)
  ret void
}
define internal void @lock(ptr %lock) {
  call i32 @pthread_mutex_lock(ptr %lock)
  ret void
}
define internal void @unlock(ptr %lock) {
  call i32 @pthread_mutex_unlock(ptr %lock)
  ret void
}
define internal void @wait(ptr %signal, ptr %lock) {
  call i32 @pthread_cond_wait(ptr %signal, ptr %lock)
  ret void
}
define internal void @wake_one(ptr %signal) {
  call i32 @pthread_cond_signal(ptr %signal)
  ret void
}
define internal void @wake_all(ptr %signal) {
  call i32 @pthread_cond_broadcast(ptr %signal)
  ret void
}
define internal i1 @spawn(ptr %thread, ptr %attr, ptr %pool) {
  %error = call i32 @pthread_create(ptr %thread, ptr %attr, ptr @worker, ptr %pool)
  %ok = icmp eq i32 %error, 0
  ret i1 %ok
}
define internal void @join(ptr %thread) {
  %handle = load ptr, ptr %thread
  call i32 @pthread_join(ptr %handle, ptr null)
  ret void
}
define internal i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 CLOCK, ptr %time)
  %seconds = load i64, ptr %time
  %part = getelementptr i64, ptr %time, i64 1
  %nanos = load i64, ptr %part
  %scaled = mul i64 %seconds, 1000000000
  %ns = add i64 %scaled, %nanos
  ret i64 %ns
}
"""

_WINDOWS = """
declare void @AcquireSRWLockExclusive(ptr)
declare void @ReleaseSRWLockExclusive(ptr)
declare i32 @SleepConditionVariableSRW(ptr, ptr, i32, i32)
declare void @WakeConditionVariable(ptr)
declare void @WakeAllConditionVariable(ptr)
declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @WaitForSingleObject(ptr, i32)
declare i32 @CloseHandle(ptr)
declare i32 @QueryPerformanceCounter(ptr)
declare i32 @QueryPerformanceFrequency(ptr)

define internal void @init(ptr %lock, ptr %work, ptr %done, ptr %attr) {
  store i64 0, ptr %lock
  store i64 0, ptr %work
  store i64 0, ptr %done
  ret void
}
define internal void @lock(ptr %lock) {
  call void @AcquireSRWLockExclusive(ptr %lock)
  ret void
}
define internal void @unlock(ptr %lock) {
  call void @ReleaseSRWLockExclusive(ptr %lock)
  ret void
}
define internal void @wait(ptr %signal, ptr %lock) {
  call i32 @SleepConditionVariableSRW(ptr %signal, ptr %lock, i32 -1, i32 0)
  ret void
}
define internal void @wake_one(ptr %signal) {
  call void @WakeConditionVariable(ptr %signal)
  ret void
}
define internal void @wake_all(ptr %signal) {
  call void @WakeAllConditionVariable(ptr %signal)
  ret void
}
define internal i1 @spawn(ptr %thread, ptr %attr, ptr %pool) {
  ; 65536 is STACK_SIZE_PARAM_IS_A_RESERVATION
  %handle = call ptr @CreateThread(ptr null, i64 STACK, ptr @worker, ptr %pool, i32 65536, ptr null)
  store ptr %handle, ptr %thread
  %ok = icmp ne ptr %handle, null
  ret i1 %ok
}
define internal void @join(ptr %thread) {
  %handle = load ptr, ptr %thread
  call i32 @WaitForSingleObject(ptr %handle, i32 -1)
  call i32 @CloseHandle(ptr %handle)
  ret void
}
define internal i64 @now() {
  %count = alloca i64
  %rate = alloca i64
  call i32 @QueryPerformanceCounter(ptr %count)
  call i32 @QueryPerformanceFrequency(ptr %rate)
  %ticks = load i64, ptr %count
  %hertz = load i64, ptr %rate
  %seconds = udiv i64 %ticks, %hertz
  %rest = urem i64 %ticks, %hertz
  %whole = mul i64 %seconds, 1000000000
  %scaled = mul i64 %rest, 1000000000
  %part = udiv i64 %scaled, %hertz
  %ns = add i64 %whole, %part
  ret i64 %ns
}
"""


def pause_ir(target: Target) -> str:
    """The statement that tells the processor that this thread is only waiting."""
    return _PAUSE.get(target.arch, "; no pause instruction")


def system_ir(target: Target) -> str:
    """The functions `init`, `lock`, `unlock`, `wait`, `wake_one`, `wake_all`, `spawn`, `join`
    and `now`; `spawn` starts the pool's `worker`, `now` is in ns.
    """
    text = _WINDOWS if "windows" in target.triple else _POSIX
    clock = "6" if "apple" in target.triple else "1"
    text = text.replace("STACK", str(_STACK_BYTES)).replace("CLOCK", clock)
    return text + _PAUSE_DECLARATION.get(target.arch, "")
