//! NCCL.

use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::call::{exported, handle, number, put};
use crate::collectives::{Collective, Format, Group, ID_BYTES, new_id};
use crate::machine::machine;
use crate::order::Use;
use crate::queue::check_sticky;
use crate::work::{Access, Work};

const SUCCESS: i32 = 0;
const UNHANDLED_CUDA_ERROR: i32 = 1;
const SYSTEM_ERROR: i32 = 2;
const INVALID_ARGUMENT: i32 = 4;
const REMOTE_ERROR: i32 = 6;
/// `ncclSum`.
const SUM: i32 = 0;
/// 2.28.9.
const VERSION: i32 = 22_809;

/// Communicators by handle.
static GROUPS: LazyLock<Mutex<HashMap<u64, Arc<Group>>>> = LazyLock::new(Mutex::default);

fn groups() -> MutexGuard<'static, HashMap<u64, Arc<Group>>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UniqueId([c_char; ID_BYTES]);

/// Submits a collective to a stream.
fn enqueue(
    comm: *mut c_void,
    stream: *mut c_void,
    from: *const c_void,
    to: *mut c_void,
    collective: Option<Collective>,
) -> i32 {
    let Some(group) = groups().get(&number(comm)).cloned() else { return INVALID_ARGUMENT };
    let Some(collective) = collective.filter(|collective| collective.fits(group.size)) else { return INVALID_ARGUMENT };
    let mut machine = machine();
    if check_sticky().and_then(|()| machine.need_context()).is_err() {
        return UNHANDLED_CUDA_ERROR;
    }
    let what = format!("{collective:?}");
    let (given, taken) = collective.bytes(group.size);
    let from = machine.memory.region(number(from), Some(given), &what);
    let to = machine.memory.region(number(to), Some(taken), &what);
    let (source, target) = (from.at() as usize, to.at() as usize);
    let accesses = vec![Access { region: from, how: Use::Read }, Access { region: to, how: Use::Write }];
    let run = Arc::new(move || {
        let mut data = vec![0; given];
        // SAFETY: the region has that many bytes, and the work keeps it.
        unsafe { data.as_mut_ptr().copy_from_nonoverlapping(source as *const u8, given) };
        if let Some(result) = group.run(collective, data) {
            // SAFETY: as above; the result has the bytes that the rank receives.
            unsafe { (target as *mut u8).copy_from_nonoverlapping(result.as_ptr(), taken.min(result.len())) };
        }
        Ok(())
    });
    machine.submit(number(stream), Work { what, accesses, run }).map_or(UNHANDLED_CUDA_ERROR, |_| SUCCESS)
}

exported! {
    fn ncclGetVersion(version: *mut i32) -> i32 {
        put(version, VERSION).map_or(INVALID_ARGUMENT, |()| SUCCESS)
    }

    fn ncclGetUniqueId(id: *mut UniqueId) -> i32 {
        match new_id() {
            Ok(new) => put(id, UniqueId(new.map(|byte| byte as c_char))).map_or(INVALID_ARGUMENT, |()| SUCCESS),
            Err(_) => SYSTEM_ERROR,
        }
    }

    fn ncclCommInitRank(comm: *mut *mut c_void, ranks: i32, id: UniqueId, rank: i32) -> i32 {
        if machine().need_context().is_err() {
            return UNHANDLED_CUDA_ERROR;
        }
        let (Ok(size), Ok(rank)) = (usize::try_from(ranks), usize::try_from(rank)) else { return INVALID_ARGUMENT };
        // As NCCL hangs on a network that is blocked.
        while std::env::var("STAND_IN_NCCL_HANGS").is_ok_and(|hangs| hangs.parse() == Ok(rank)) {
            std::thread::park();
        }
        match Group::join(&id.0.map(|byte| byte as u8), rank, size) {
            Ok(group) => {
                let new = machine().handle();
                groups().insert(new, Arc::new(group));
                put(comm, handle(new)).map_or(INVALID_ARGUMENT, |()| SUCCESS)
            }
            Err(error) => {
                eprintln!("stand-in: ncclCommInitRank of rank {rank}: {error}");
                SYSTEM_ERROR
            }
        }
    }

    fn ncclCommGetAsyncError(comm: *mut c_void, error: *mut i32) -> i32 {
        let Some(group) = groups().get(&number(comm)).cloned() else { return INVALID_ARGUMENT };
        let state = if group.has_failed() { REMOTE_ERROR } else { SUCCESS };
        put(error, state).map_or(INVALID_ARGUMENT, |()| SUCCESS)
    }

    fn ncclCommAbort(comm: *mut c_void) -> i32 {
        match groups().remove(&number(comm)) {
            Some(group) => {
                group.abort();
                SUCCESS
            }
            None => INVALID_ARGUMENT,
        }
    }

    fn ncclCommFinalize(comm: *mut c_void) -> i32 {
        if groups().contains_key(&number(comm)) { SUCCESS } else { INVALID_ARGUMENT }
    }

    fn ncclCommDestroy(comm: *mut c_void) -> i32 {
        groups().remove(&number(comm)).map_or(INVALID_ARGUMENT, |_| SUCCESS)
    }

    fn ncclAllReduce(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        format: i32,
        operation: i32,
        comm: *mut c_void,
        stream: *mut c_void,
    ) -> i32 {
        let format = Format::find(format).filter(|_| operation == SUM);
        enqueue(comm, stream, from, to, format.map(|format| Collective::AllReduce { count, format }))
    }

    fn ncclReduceScatter(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        format: i32,
        operation: i32,
        comm: *mut c_void,
        stream: *mut c_void,
    ) -> i32 {
        let format = Format::find(format).filter(|_| operation == SUM);
        enqueue(comm, stream, from, to, format.map(|format| Collective::ReduceScatter { count, format }))
    }

    fn ncclAllGather(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        format: i32,
        comm: *mut c_void,
        stream: *mut c_void,
    ) -> i32 {
        let format = Format::find(format);
        enqueue(comm, stream, from, to, format.map(|format| Collective::AllGather { count, format }))
    }

    fn ncclBroadcast(
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        format: i32,
        root: i32,
        comm: *mut c_void,
        stream: *mut c_void,
    ) -> i32 {
        let root = usize::try_from(root).ok();
        let collective =
            Format::find(format).zip(root).map(|(format, root)| Collective::Broadcast { count, format, root });
        enqueue(comm, stream, from, to, collective)
    }
}
