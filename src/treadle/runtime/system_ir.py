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

# Linux: keeps `count` threads off the core that this thread runs on; `seen` remembers that core,
# counted from 1, so that it is told once. Nothing happens where this is the only core allowed.
_APART = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(ptr, i64, ptr)

define internal void @apart(ptr %threads, i64 %count, ptr %seen) {
entry:
  %mask = alloca [16 x i64], align 8
  %core32 = call i32 @sched_getcpu()
  %core = zext i32 %core32 to i64
  %number = add i64 %core, 1
  %before = load i64, ptr %seen
  %same = icmp eq i64 %number, %before
  %high = icmp uge i64 %core, 1024
  %skip = or i1 %same, %high
  br i1 %skip, label %out, label %ask
ask:
  store i64 %number, ptr %seen
  %error = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %failed = icmp slt i32 %error, 0
  br i1 %failed, label %out, label %clear
clear:
  %index = lshr i64 %core, 6
  %bit = and i64 %core, 63
  %one = shl i64 1, %bit
  %others = xor i64 %one, -1
  %word = getelementptr i64, ptr %mask, i64 %index
  %old = load i64, ptr %word
  %new = and i64 %old, %others
  store i64 %new, ptr %word
  br label %sum
sum:
  %w = phi i64 [ 0, %clear ], [ %wnext, %sum ]
  %any = phi i64 [ 0, %clear ], [ %more, %sum ]
  %wp = getelementptr i64, ptr %mask, i64 %w
  %wv = load i64, ptr %wp
  %more = or i64 %any, %wv
  %wnext = add i64 %w, 1
  %wend = icmp eq i64 %wnext, 16
  br i1 %wend, label %summed, label %sum
summed:
  %empty = icmp eq i64 %more, 0
  br i1 %empty, label %out, label %each
each:
  %i = phi i64 [ 0, %summed ], [ %inext, %set ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %set, label %out
set:
  %slot = getelementptr ptr, ptr %threads, i64 %i
  %thread = load ptr, ptr %slot
  call i32 @pthread_setaffinity_np(ptr %thread, i64 128, ptr %mask)
  %inext = add i64 %i, 1
  br label %each
out:
  ret void
}
"""
_ANYWHERE = """
define internal void @apart(ptr %threads, i64 %count, ptr %seen) {
  ret void
}
"""

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
    """The functions `init`, `lock`, `unlock`, `wait`, `wake_one`, `wake_all`, `spawn`, `join`,
    `apart` and `now`; `spawn` starts the pool's `worker`, `now` is in ns.
    """
    text = _WINDOWS if "windows" in target.triple else _POSIX
    clock = "6" if "apple" in target.triple else "1"
    text = text.replace("STACK", str(_STACK_BYTES)).replace("CLOCK", clock)
    text += _APART if "linux" in target.triple else _ANYWHERE
    return text + _PAUSE_DECLARATION.get(target.arch, "")
