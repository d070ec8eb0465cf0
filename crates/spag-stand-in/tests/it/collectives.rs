//! NCCL collectives, with threads as ranks.

use std::ffi::c_void;
use std::sync::mpsc;
use std::thread;

use spag_stand_in::calls::nccl::{self, UniqueId};

use crate::child::must_end;
use crate::driver::{Handle, allocate, bind, download, new_stream, ok, upload};

const F32: i32 = 7;

/// Runs `rank` on a thread for each rank, with its communicator.
fn on_ranks<T: Send + 'static>(size: i32, rank: impl Fn(i32, Handle) -> T + Clone + Send + 'static) -> Vec<T> {
    let mut id = std::mem::MaybeUninit::<UniqueId>::uninit();
    // SAFETY: the result is written to a value of this function.
    ok(unsafe { nccl::ncclGetUniqueId(id.as_mut_ptr()) });
    // SAFETY: written above.
    let id = unsafe { id.assume_init() };
    let threads: Vec<_> = (0..size)
        .map(|number| {
            let rank = rank.clone();
            thread::spawn(move || {
                bind();
                let mut comm = std::ptr::null_mut();
                // SAFETY: the result is written to a value of this function.
                ok(unsafe { nccl::ncclCommInitRank(&raw mut comm, size, id, number) });
                rank(number, Handle(comm))
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn at(address: u64) -> *mut c_void {
    address as *mut c_void
}

#[test]
fn every_rank_gets_the_result() {
    let results = on_ranks(3, |rank, Handle(comm)| {
        let stream = new_stream();
        let own = rank as f32;
        let (from, to) = (allocate(3, stream), allocate(3, stream));
        upload(&[own, own + 10., own + 20.], from, stream);
        // SAFETY: memory of three numbers.
        unsafe {
            ok(nccl::ncclAllReduce(at(from), at(to), 3, F32, 0, comm, stream.0));
            let sum = download(to, 3, stream);
            ok(nccl::ncclReduceScatter(at(from), at(to), 1, F32, 0, comm, stream.0));
            let part = download(to, 1, stream);
            ok(nccl::ncclAllGather(at(from), at(to), 1, F32, comm, stream.0));
            let gathered = download(to, 3, stream);
            ok(nccl::ncclBroadcast(at(from), at(to), 3, F32, 2, comm, stream.0));
            let sent = download(to, 3, stream);
            assert_ne!(nccl::ncclBroadcast(at(from), at(to), 3, F32, 3, comm, stream.0), 0, "there is no rank 3");
            ok(nccl::ncclCommDestroy(comm));
            (sum, part, gathered, sent)
        }
    });
    for (rank, (sum, part, gathered, sent)) in results.into_iter().enumerate() {
        assert_eq!((sum, part), (vec![3., 33., 63.], vec![[3., 33., 63.][rank]]));
        assert_eq!((gathered, sent), (vec![0., 1., 2.], vec![2., 12., 22.]));
    }
}

#[test]
fn a_lost_rank_is_an_asynchronous_error_until_the_others_abort() {
    let (lost, waiting) = mpsc::channel::<()>();
    let waiting = std::sync::Arc::new(std::sync::Mutex::new(waiting));
    let results = on_ranks(2, move |rank, Handle(comm)| {
        let (stream, mut error) = (new_stream(), 0);
        if rank == 1 {
            // SAFETY: no pointers.
            ok(unsafe { nccl::ncclCommAbort(comm) });
            lost.send(()).unwrap();
            return 0;
        }
        waiting.lock().unwrap().recv().unwrap();
        let memory = allocate(4, stream);
        // SAFETY: memory of four numbers; the result is written to a value of this function.
        unsafe {
            ok(nccl::ncclAllReduce(at(memory), at(memory), 4, F32, 0, comm, stream.0));
            while error == 0 {
                ok(nccl::ncclCommGetAsyncError(comm, &raw mut error));
                thread::yield_now();
            }
            ok(nccl::ncclCommAbort(comm));
        }
        ok(stream.synchronize());
        error
    });
    assert_eq!(results, [6, 0], "ncclRemoteError");
}

#[test]
fn collectives_that_differ_end_the_program() {
    let test = "collectives::collectives_that_differ_end_the_program";
    must_end(test, "collective 0 differs between ranks", || {
        on_ranks(2, |rank, Handle(comm)| {
            let stream = new_stream();
            let memory = allocate(4, stream);
            // SAFETY: memory of four numbers.
            unsafe { nccl::ncclAllReduce(at(memory), at(memory), 4 - rank as usize, F32, 0, comm, stream.0) };
            stream.synchronize();
        });
    });
}
