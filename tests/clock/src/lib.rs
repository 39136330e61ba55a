//! A wall clock that is wrong by as much as a file says. Monotonic time is left alone.
//!
//! Preloaded into a process, this stands before the C library's own functions. The file that
//! `TURNSTONE_CLOCK` names holds the offset: microseconds, eight bytes, in the machine's order.
//! (libfaketime does the same, but ends in a recursion with Redis' allocator.)

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use libc::{CLOCK_REALTIME, SYS_clock_gettime, clockid_t, timespec, timeval};

static NONE: AtomicI64 = AtomicI64::new(0);
static OFFSET: AtomicPtr<AtomicI64> = AtomicPtr::new(null_mut());

/// As in the C library.
///
/// # Safety
/// `time` must be valid for writes, as in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: the caller's promise is passed on to the kernel.
    let result = unsafe { libc::syscall(SYS_clock_gettime, clock, time) };
    if result == 0 && clock == CLOCK_REALTIME && !time.is_null() {
        // SAFETY: the kernel has just written there.
        unsafe { shift(&mut *time) };
    }
    result as c_int
}

/// As in the C library; the time zone is long obsolete and stays untouched.
///
/// # Safety
/// `time` must be null or valid for writes, as in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut libc::c_void) -> c_int {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` lives here.
    let result = unsafe { clock_gettime(CLOCK_REALTIME, &mut now) };
    if result == 0 && !time.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *time = timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 } };
    }
    result
}

fn shift(time: &mut timespec) {
    let shifted = time.tv_sec * 1_000_000_000 + time.tv_nsec + offset() * 1000;
    (time.tv_sec, time.tv_nsec) = (shifted.div_euclid(1_000_000_000), shifted.rem_euclid(1_000_000_000));
}

fn offset() -> i64 {
    let mut place = OFFSET.load(Ordering::Acquire);
    if place.is_null() {
        place = map().unwrap_or((&raw const NONE).cast_mut());
        OFFSET.store(place, Ordering::Release);
    }
    // SAFETY: it points to the mapping, which is never taken away, or to a static.
    unsafe { (*place).load(Ordering::Acquire) }
}

/// The file's eight bytes in memory, shared with whoever writes them.
fn map() -> Option<*mut AtomicI64> {
    // SAFETY: plain calls of the C library, with a name that it gave us.
    unsafe {
        let name = libc::getenv(c"TURNSTONE_CLOCK".as_ptr());
        if name.is_null() {
            return None;
        }
        let file = libc::open(name, libc::O_RDONLY);
        let memory = libc::mmap(null_mut(), size_of::<AtomicI64>(), libc::PROT_READ, libc::MAP_SHARED, file, 0);
        libc::close(file);
        (memory != libc::MAP_FAILED).then_some(memory.cast())
    }
}
