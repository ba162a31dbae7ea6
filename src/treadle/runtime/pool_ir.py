"""The native worker pool, as LLVM IR text for one target.

    pool_ir(target)  ->  "define void @treadle_replay(ptr %header) ..."

A phase's grid is cut into chunks. `state` holds the phase's number (16 bits), the first chunk not
yet claimed and how many follow (24 bits each), so that one compare-and-swap both claims a chunk and
proves that the phase is still the one looked at. The calling thread claims the first chunk that is
left, workers the last. What they claim are places; in the workers' share these count the chunks
back from the end. So each share is gone through upwards, as kernels expect that fetch ahead, and
from phase to phase it stays with those who had it, and with what their caches hold of it. A phase
ends when `done` reaches its number of chunks; a worker that comes late finds nothing to claim and
is waited for by nobody.

Workers are threads of the pool's own. Or they are those of an OpenMP runtime, for as long as one
run lasts: the run is then a parallel region, whose first member is the calling thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.runtime.system_ir import pause_ir, system_ir

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["POOL_BYTES", "POOL_FIELDS", "POOL_SYMBOLS", "pool_ir"]

# Byte offsets in the pool's memory. What different threads write lies on different cache lines
# (128 bytes: adjacent lines are fetched in pairs).
POOL_FIELDS = {
    "state": 0, "done": 128,
    "fn": 256, "args": 264, "vars": 272, "grid": 280, "grain": 288, "chunks": 296, "own": 304,
    "busy": 384, "stop": 512, "workers": 520, "started": 528, "spin_ns": 536,
    "region": 544, "rank": 552,
    "sleepers": 640, "caller_waits": 648, "core": 656,
    "lock": 768, "work_signal": 896, "done_signal": 1024, "attr": 1152, "thread": 1280,
}  # fmt: skip
MAX_WORKERS = 1023
POOL_BYTES = POOL_FIELDS["thread"] + 8 * MAX_WORKERS
POOL_SYMBOLS = ("treadle_replay", "treadle_pool_stop", "treadle_pool_borrow")

_POOL = """
; True while `state` shows unclaimed chunks or the pool is to stop.
define internal i1 @has_work(ptr %pool) {
  $state = field state
  %state = load atomic i64, ptr $state seq_cst, align 8
  %left = and i64 %state, 16777215
  %work = icmp ne i64 %left, 0
  $stop = field stop
  %stop = load atomic i64, ptr $stop seq_cst, align 8
  %stops = icmp ne i64 %stop, 0
  %any = or i1 %work, %stops
  ret i1 %any
}

; Claims and runs chunks, the last ones first or not, until none is left, then reports how many.
define internal void @work(ptr %pool, i1 %from_end) {
entry:
  $state = field state
  $fn = field fn
  $args = field args
  $vars = field vars
  $grid = field grid
  $grain = field grain
  $chunks = field chunks
  $own = field own
  br label %look
look:
  %ran = phi i64 [ 0, %entry ], [ %ran, %claim ], [ %more, %run ]
  %total = phi i64 [ 0, %entry ], [ %total, %claim ], [ %chunks, %run ]
  %state = load atomic i64, ptr $state seq_cst, align 8
  %left = and i64 %state, 16777215
  %none = icmp eq i64 %left, 0
  br i1 %none, label %report, label %claim
claim:
  %step = select i1 %from_end, i64 -1, i64 16777215
  %less = add i64 %state, %step
  %swap = cmpxchg weak ptr $state, i64 %state, i64 %less seq_cst seq_cst, align 8
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %look
run:
  ; The phase cannot end before this chunk is reported, so its fields stay as they are.
  %fn = load ptr, ptr $fn
  %args = load ptr, ptr $args
  %vars = load ptr, ptr $vars
  %grid = load i64, ptr $grid
  %grain = load i64, ptr $grain
  %chunks = load i64, ptr $chunks
  %high = lshr i64 %state, 24
  %first = and i64 %high, 16777215
  %behind = sub i64 %left, 1
  %last = add i64 %first, %behind
  %place = select i1 %from_end, i64 %last, i64 %first
  ; Both shares are gone through upwards: what a kernel fetches ahead is behind its chunk.
  %own = load i64, ptr $own
  %above = sub i64 %chunks, 1
  %over = sub i64 %above, %place
  %turned = add i64 %own, %over
  %is_own = icmp slt i64 %place, %own
  %index = select i1 %is_own, i64 %place, i64 %turned
  %begin = mul i64 %index, %grain
  %full = add i64 %begin, %grain
  %end = call i64 @llvm.smin.i64(i64 %full, i64 %grid)
  call void %fn(ptr %args, ptr %vars, i64 %begin, i64 %end)
  %more = add i64 %ran, 1
  br label %look
report:
  %idle = icmp eq i64 %ran, 0
  br i1 %idle, label %out, label %add
add:
  $done = field done
  %before = atomicrmw add ptr $done, i64 %ran seq_cst, align 8
  %after = add i64 %before, %ran
  %all = icmp eq i64 %after, %total
  br i1 %all, label %ended, label %out
ended:
  $waits = field caller_waits
  %waits = load atomic i64, ptr $waits seq_cst, align 8
  %asleep = icmp ne i64 %waits, 0
  br i1 %asleep, label %wake, label %out
wake:
  $lock = field lock
  $signal = field done_signal
  call void @lock(ptr $lock)
  call void @wake_one(ptr $signal)
  call void @unlock(ptr $lock)
  br label %out
out:
  ret void
}

; A worker thread: spin for a while, then sleep, until there is work or the pool stops.
define internal ptr @worker(ptr %pool) {
entry:
  $stop = field stop
  $spin = field spin_ns
  $lock = field lock
  $signal = field work_signal
  $sleepers = field sleepers
  br label %rest
rest:
  %start = call i64 @now()
  br label %round
round:
  %spins = phi i64 [ 0, %rest ], [ 0, %late ], [ %next, %idle ]
  %any = call i1 @has_work(ptr %pool)
  br i1 %any, label %busy, label %idle
idle:
  PAUSE
  %next = add i64 %spins, 1
  %look = icmp ult i64 %next, 32
  br i1 %look, label %round, label %late
late:
  %time = call i64 @now()
  %spent = sub i64 %time, %start
  %limit = load i64, ptr $spin
  %patient = icmp slt i64 %spent, %limit
  br i1 %patient, label %round, label %sleep
sleep:
  call void @lock(ptr $lock)
  %s0 = atomicrmw add ptr $sleepers, i64 1 seq_cst, align 8
  br label %check
check:
  %wakeup = call i1 @has_work(ptr %pool)
  br i1 %wakeup, label %awake, label %doze
doze:
  call void @wait(ptr $signal, ptr $lock)
  br label %check
awake:
  %s1 = atomicrmw sub ptr $sleepers, i64 1 seq_cst, align 8
  call void @unlock(ptr $lock)
  br label %busy
busy:
  %stop = load atomic i64, ptr $stop seq_cst, align 8
  %stops = icmp ne i64 %stop, 0
  br i1 %stops, label %out, label %do
do:
  call void @work(ptr %pool, i1 true)
  br label %rest
out:
  ret ptr null
}

; Starts the threads at the first phase that is worth sharing; returns how many there are.
define internal i64 @start(ptr %pool) {
entry:
  $region = field region
  $started = field started
  $workers = field workers
  $lock = field lock
  $work = field work_signal
  $done = field done_signal
  $attr = field attr
  $thread = field thread
  $core = field core
  %wanted = load i64, ptr $workers
  %started = load i64, ptr $started
  %known = icmp ne i64 %started, 0
  %nothing = icmp sle i64 %wanted, 0
  %region = load ptr, ptr $region
  %borrows = icmp ne ptr %region, null
  %enough0 = or i1 %known, %nothing
  %skip = or i1 %enough0, %borrows
  br i1 %skip, label %out, label %init
init:
  store i64 1, ptr $started
  store i64 0, ptr $core
  call void @init(ptr $lock, ptr $work, ptr $done, ptr $attr)
  br label %each
each:
  %i = phi i64 [ 0, %init ], [ %next, %made ]
  %enough = icmp sge i64 %i, %wanted
  br i1 %enough, label %full, label %one
one:
  %slot = getelementptr ptr, ptr $thread, i64 %i
  %ok = call i1 @spawn(ptr %slot, ptr $attr, ptr %pool)
  br i1 %ok, label %made, label %full
made:
  %next = add i64 %i, 1
  br label %each
full:
  ; The system may refuse a thread: then fewer workers, or none, do the work.
  store i64 %i, ptr $workers
  br label %out
out:
  %count = phi i64 [ %wanted, %entry ], [ %i, %full ]
  ret i64 %count
}

; One phase shared by the calling thread and the workers; returns when all of it is done.
define internal void @share(ptr %pool, ptr %fn, ptr %args, ptr %vars, i64 %grid, i64 %asked) {
entry:
  $state = field state
  $done = field done
  $fn = field fn
  $args = field args
  $vars = field vars
  $grid = field grid
  $grain = field grain
  $chunks = field chunks
  $own = field own
  $sleepers = field sleepers
  $core = field core
  $workers = field workers
  $started = field started
  $thread = field thread
  $lock = field lock
  $signal = field work_signal
  $ended = field done_signal
  $spin = field spin_ns
  $waits = field caller_waits
  ; At most 2**23 chunks, so that their number fits its part of `state`.
  %high = lshr i64 %grid, 23
  %least = add i64 %high, 1
  %grain = call i64 @llvm.smax.i64(i64 %asked, i64 %least)
  %up = add i64 %grid, %grain
  %top = sub i64 %up, 1
  %chunks = udiv i64 %top, %grain
  store ptr %fn, ptr $fn
  store ptr %args, ptr $args
  store ptr %vars, ptr $vars
  store i64 %grid, ptr $grid
  store i64 %grain, ptr $grain
  store i64 %chunks, ptr $chunks
  %others = load i64, ptr $workers
  %threads = add i64 %others, 1
  %shared = add i64 %chunks, %others
  %own = udiv i64 %shared, %threads
  store i64 %own, ptr $own
  store atomic i64 0, ptr $done seq_cst, align 8
  %old = load atomic i64, ptr $state seq_cst, align 8
  %epoch = and i64 %old, -281474976710656
  %next_epoch = add i64 %epoch, 281474976710656
  %new = or i64 %next_epoch, %chunks
  store atomic i64 %new, ptr $state seq_cst, align 8
  %asleep = load atomic i64, ptr $sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %rouse, label %help
rouse:
  ; A system may wake a worker on the caller's own core, where it waits until somebody moves it.
  %started = load i64, ptr $started
  %is_own_thread = icmp ne i64 %started, 0
  br i1 %is_own_thread, label %part, label %signal
part:
  %count = load i64, ptr $workers
  call void @apart(ptr $thread, i64 %count, ptr $core)
  br label %signal
signal:
  call void @lock(ptr $lock)
  %useful = sub i64 %chunks, 1
  %all = icmp sge i64 %useful, %asleep
  br i1 %all, label %everyone, label %some
everyone:
  call void @wake_all(ptr $signal)
  br label %roused
some:
  %i = phi i64 [ 0, %signal ], [ %inext, %some ]
  call void @wake_one(ptr $signal)
  %inext = add i64 %i, 1
  %again = icmp slt i64 %inext, %useful
  br i1 %again, label %some, label %roused
roused:
  call void @unlock(ptr $lock)
  br label %help
help:
  call void @work(ptr %pool, i1 false)
  %start = call i64 @now()
  br label %round
round:
  %spins = phi i64 [ 0, %help ], [ 0, %late ], [ %next, %idle ]
  %d0 = load atomic i64, ptr $done seq_cst, align 8
  %finished = icmp eq i64 %d0, %chunks
  br i1 %finished, label %out, label %idle
idle:
  PAUSE
  %next = add i64 %spins, 1
  %look = icmp ult i64 %next, 32
  br i1 %look, label %round, label %late
late:
  %time = call i64 @now()
  %spent = sub i64 %time, %start
  %limit = load i64, ptr $spin
  %patient = icmp slt i64 %spent, %limit
  br i1 %patient, label %round, label %sleep
sleep:
  call void @lock(ptr $lock)
  store atomic i64 1, ptr $waits seq_cst, align 8
  br label %check
check:
  %d1 = load atomic i64, ptr $done seq_cst, align 8
  %over = icmp eq i64 %d1, %chunks
  br i1 %over, label %awake, label %doze
doze:
  call void @wait(ptr $ended, ptr $lock)
  br label %check
awake:
  store atomic i64 0, ptr $waits seq_cst, align 8
  call void @unlock(ptr $lock)
  br label %out
out:
  ret void
}

; One phase: here if it is too small to share or another thread has the workers.
define internal void @phase(ptr %pool, ptr %phase, ptr %args, ptr %vars, i1 %owner) {
entry:
  %fn = load ptr, ptr %phase
  %pgrid = getelementptr i64, ptr %phase, i64 1
  %grid = load i64, ptr %pgrid
  %pgrain = getelementptr i64, ptr %phase, i64 2
  %grain = load i64, ptr %pgrain
  %empty = icmp sle i64 %grid, 0
  br i1 %empty, label %out, label %judge
judge:
  %large = icmp sgt i64 %grid, %grain
  %share = and i1 %large, %owner
  br i1 %share, label %try, label %alone
try:
  %workers = call i64 @start(ptr %pool)
  %helped = icmp sgt i64 %workers, 0
  br i1 %helped, label %together, label %alone
together:
  call void @share(ptr %pool, ptr %fn, ptr %args, ptr %vars, i64 %grid, i64 %grain)
  br label %out
alone:
  call void %fn(ptr %args, ptr %vars, i64 0, i64 %grid)
  br label %out
out:
  ret void
}

define internal void @call(ptr %pool, ptr %call, i1 %owner) {
entry:
  %count = load i64, ptr %call
  %pphases = getelementptr i64, ptr %call, i64 1
  %phases = load ptr, ptr %pphases
  %pargs = getelementptr i64, ptr %call, i64 2
  %args = load ptr, ptr %pargs
  %pvars = getelementptr i64, ptr %call, i64 3
  %vars = load ptr, ptr %pvars
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %out
one:
  %phase = getelementptr [3 x i64], ptr %phases, i64 %i
  call void @phase(ptr %pool, ptr %phase, ptr %args, ptr %vars, i1 %owner)
  %next = add i64 %i, 1
  br label %each
out:
  ret void
}

; Runs `n` calls in order. `times`, if not null, gets a start and an end in ns for each.
define internal void @in_order(ptr %pool, ptr %calls, i64 %n, ptr %times, i1 %owner) {
entry:
  %timed = icmp ne ptr %times, null
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %stamped ], [ %next, %one ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %prepare, label %out
prepare:
  %call = getelementptr [4 x i64], ptr %calls, i64 %i
  %next = add i64 %i, 1
  br i1 %timed, label %stamp, label %one
one:
  call void @call(ptr %pool, ptr %call, i1 %owner)
  br label %each
stamp:
  %pair = getelementptr [2 x i64], ptr %times, i64 %i
  %begin = call i64 @now()
  store i64 %begin, ptr %pair
  br label %stamped
stamped:
  call void @call(ptr %pool, ptr %call, i1 %owner)
  %end = call i64 @now()
  %pend = getelementptr i64, ptr %pair, i64 1
  store i64 %end, ptr %pend
  br label %each
out:
  ret void
}

; Whether any phase of `n` calls is worth sharing.
define internal i1 @is_shared(ptr %calls, i64 %n) {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i, %phase ], [ %inext, %calls_on ]
  %j = phi i64 [ 0, %entry ], [ %jnext, %phase ], [ 0, %calls_on ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %look, label %none
look:
  %call = getelementptr [4 x i64], ptr %calls, i64 %i
  %count = load i64, ptr %call
  %inside = icmp slt i64 %j, %count
  br i1 %inside, label %phase, label %calls_on
calls_on:
  %inext = add i64 %i, 1
  br label %each
phase:
  %pphases = getelementptr i64, ptr %call, i64 1
  %phases = load ptr, ptr %pphases
  %record = getelementptr [3 x i64], ptr %phases, i64 %j
  %pgrid = getelementptr i64, ptr %record, i64 1
  %grid = load i64, ptr %pgrid
  %pgrain = getelementptr i64, ptr %record, i64 2
  %grain = load i64, ptr %pgrain
  %jnext = add i64 %j, 1
  %large = icmp sgt i64 %grid, %grain
  br i1 %large, label %some, label %each
some:
  ret i1 true
none:
  ret i1 false
}

; A member of a parallel region: the first one makes the calls, the others are its workers.
define internal void @member(ptr %given) {
entry:
  %pool = load ptr, ptr %given
  $rank = field rank
  $stop = field stop
  $lock = field lock
  $signal = field work_signal
  %rank = load ptr, ptr $rank
  %mine = call i32 %rank()
  %is_first = icmp eq i32 %mine, 0
  br i1 %is_first, label %lead, label %help
lead:
  %pcalls = getelementptr i64, ptr %given, i64 1
  %calls = load ptr, ptr %pcalls
  %pn = getelementptr i64, ptr %given, i64 2
  %n = load i64, ptr %pn
  %ptimes = getelementptr i64, ptr %given, i64 3
  %times = load ptr, ptr %ptimes
  call void @in_order(ptr %pool, ptr %calls, i64 %n, ptr %times, i1 true)
  call void @lock(ptr $lock)
  store atomic i64 1, ptr $stop seq_cst, align 8
  call void @wake_all(ptr $signal)
  call void @unlock(ptr $lock)
  ret void
help:
  call ptr @worker(ptr %pool)
  ret void
}

define void @treadle_run(ptr %pool, ptr %calls, i64 %n, ptr %times) {
entry:
  $busy = field busy
  $region = field region
  $workers = field workers
  $stop = field stop
  %given = alloca [4 x i64], align 8
  %swap = cmpxchg ptr $busy, i64 0, i64 1 seq_cst seq_cst, align 8
  %owner = extractvalue { i64, i1 } %swap, 1
  br i1 %owner, label %mine, label %alone
alone:
  call void @in_order(ptr %pool, ptr %calls, i64 %n, ptr %times, i1 false)
  ret void
mine:
  %region = load ptr, ptr $region
  %borrows = icmp ne ptr %region, null
  br i1 %borrows, label %judge, label %own
judge:
  %shared = call i1 @is_shared(ptr %calls, i64 %n)
  br i1 %shared, label %together, label %own
own:
  call void @in_order(ptr %pool, ptr %calls, i64 %n, ptr %times, i1 true)
  br label %leave
together:
  store ptr %pool, ptr %given
  %pcalls = getelementptr i64, ptr %given, i64 1
  store ptr %calls, ptr %pcalls
  %pn = getelementptr i64, ptr %given, i64 2
  store i64 %n, ptr %pn
  %ptimes = getelementptr i64, ptr %given, i64 3
  store ptr %times, ptr %ptimes
  %others = load i64, ptr $workers
  %members = add i64 %others, 1
  %members32 = trunc i64 %members to i32
  ; It returns when all members have: no worker looks at the pool any more.
  call void %region(ptr @member, ptr %given, i32 %members32, i32 0)
  store atomic i64 0, ptr $stop seq_cst, align 8
  br label %leave
leave:
  store atomic i64 0, ptr $busy seq_cst, align 8
  ret void
}

; From now on workers are threads of an OpenMP runtime: `region` is its GOMP_parallel, `rank` its
; omp_get_thread_num. 0 if a run is under way, else 1.
define i64 @treadle_pool_borrow(ptr %pool, ptr %region, ptr %rank) {
entry:
  $busy = field busy
  $region = field region
  $rank = field rank
  $lock = field lock
  $work = field work_signal
  $done = field done_signal
  $attr = field attr
  %stopped = call i64 @treadle_pool_stop(ptr %pool)
  %could = icmp ne i64 %stopped, 0
  br i1 %could, label %claim, label %refuse
claim:
  %swap = cmpxchg ptr $busy, i64 0, i64 1 seq_cst seq_cst, align 8
  %owner = extractvalue { i64, i1 } %swap, 1
  br i1 %owner, label %set, label %refuse
set:
  call void @init(ptr $lock, ptr $work, ptr $done, ptr $attr)
  store ptr %rank, ptr $rank
  store ptr %region, ptr $region
  store atomic i64 0, ptr $busy seq_cst, align 8
  ret i64 1
refuse:
  ret i64 0
}

; `treadle_run` with its four arguments read from memory: one pointer is cheaper to pass from
; Python than four numbers.
define void @treadle_replay(ptr %header) {
  %pool = load ptr, ptr %header
  %pcalls = getelementptr i64, ptr %header, i64 1
  %calls = load ptr, ptr %pcalls
  %pn = getelementptr i64, ptr %header, i64 2
  %n = load i64, ptr %pn
  %ptimes = getelementptr i64, ptr %header, i64 3
  %times = load ptr, ptr %ptimes
  call void @treadle_run(ptr %pool, ptr %calls, i64 %n, ptr %times)
  ret void
}

; Ends and joins the threads; a later phase starts them anew. 0 if a run is under way, else 1.
define i64 @treadle_pool_stop(ptr %pool) {
entry:
  $busy = field busy
  $started = field started
  $stop = field stop
  $lock = field lock
  $signal = field work_signal
  $workers = field workers
  $thread = field thread
  %swap = cmpxchg ptr $busy, i64 0, i64 1 seq_cst seq_cst, align 8
  %owner = extractvalue { i64, i1 } %swap, 1
  br i1 %owner, label %look, label %refuse
look:
  %started = load i64, ptr $started
  %running = icmp ne i64 %started, 0
  br i1 %running, label %end, label %leave
end:
  call void @lock(ptr $lock)
  store atomic i64 1, ptr $stop seq_cst, align 8
  call void @wake_all(ptr $signal)
  call void @unlock(ptr $lock)
  %count = load i64, ptr $workers
  br label %each
each:
  %i = phi i64 [ 0, %end ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %ended
one:
  %slot = getelementptr ptr, ptr $thread, i64 %i
  call void @join(ptr %slot)
  %next = add i64 %i, 1
  br label %each
ended:
  store atomic i64 0, ptr $stop seq_cst, align 8
  store i64 0, ptr $started
  br label %leave
leave:
  store atomic i64 0, ptr $busy seq_cst, align 8
  ret i64 1
refuse:
  ret i64 0
}

declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""

_FIELD = re.compile(r"^  \$(\w+) = field (\w+)$", re.MULTILINE)


def pool_ir(target: Target) -> str:
    """The pool's module for `target`, exporting POOL_SYMBOLS and `treadle_run`."""
    pool = _FIELD.sub(_address, _POOL).replace("$", "%p.").replace("PAUSE", pause_ir(target))
    return system_ir(target) + pool


def _address(match: re.Match[str]) -> str:
    offset = POOL_FIELDS[match[2]]
    return f"  ${match[1]} = getelementptr i8, ptr %pool, i64 {offset}"
