//! Large pages for memory that is read over and over.
//!
//! Weights and caches of gigabytes, read from end to end at every step, miss the processor's address cache every 4 KiB;
//! on a virtual machine a miss costs as much as reading the page. Linux gives pages of 2 MiB where it is asked to.

/// Asks for large pages under `values`, which should not have been touched yet. A hint: nothing happens where there are
/// none.
#[cfg(target_os = "linux")]
pub(crate) fn ask_for<T>(values: &mut [T]) {
    /// Only whole large pages are worth asking for.
    const HUGE: usize = 2 << 20;
    let bytes = size_of_val(values);
    let start = values.as_mut_ptr().cast::<u8>();
    let skip = start.align_offset(HUGE);
    let length = bytes.saturating_sub(skip) / HUGE * HUGE;
    if length == 0 {
        return;
    }
    let inside = start.wrapping_add(skip);
    // SAFETY: the range lies inside the slice, and the advice changes no contents. That it is refused is no harm.
    let _ = unsafe { rustix::mm::madvise(inside.cast(), length, rustix::mm::Advice::LinuxHugepage) };
}

/// Only Linux is asked.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for<T>(_: &mut [T]) {}
