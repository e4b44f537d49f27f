//! Clocks and sleeps.

use super::call::timespec;

/// Return the nanoseconds of a clock; `None` if it does not exist (its process has ended).
pub fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Return CLOCK_MONOTONIC in nanoseconds: the clock of every time in this crate (vDSO, some 25 ns).
#[inline]
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Return the nanoseconds since 1970 (CLOCK_REALTIME).
pub fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// Return the CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Return the CPU time (user and system, all threads) of another process, in nanoseconds.
///
/// This call takes some 300 ns and has a resolution of nanoseconds, while `/proc/PID/stat` takes a
/// file read and counts in units of 10 ms, and `/proc/PID/schedstat` covers the main thread only:
/// clock_getcpuclockid(3).
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is valid for the write.
    let result = unsafe { libc::clock_getcpuclockid(pid, &mut clock) };
    if result == 0 { clock_ns(clock) } else { None }
}

/// Sleep until CLOCK_MONOTONIC shows `at_ns` or a signal comes.
pub fn sleep_until(at_ns: u64) {
    let time = timespec(at_ns);
    // SAFETY: `time` is valid, and no remainder is requested.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        );
    }
}

/// Make sleeps of the calling thread end on time: the default slack is 50 µs.
pub fn set_precise_timers() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0, 0, 0) };
}
