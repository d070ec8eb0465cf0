//! A parallel map that keeps the order of its items.

use std::io;
use std::num::NonZeroUsize;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Items and results queued per worker; bounds memory.
const QUEUE: usize = 2;

/// Maps every item on one of `threads` workers and passes the results to `consume`, in the order of the items.
///
/// `new_worker` makes the function of one worker, which may keep state between items. The first error of `consume` ends
/// the map, so the outcome does not depend on the number of threads. One thread runs everything on the caller's. If a
/// thread cannot be started, the error of `no_thread` ends the map before the first item.
pub(crate) fn map_in_order<T: Send, R: Send, W: FnMut(T) -> R, E>(
    threads: NonZeroUsize,
    items: impl Iterator<Item = T> + Send,
    new_worker: impl Fn() -> W + Sync,
    mut consume: impl FnMut(R) -> Result<(), E>,
    no_thread: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    if threads.get() == 1 {
        return items.map(new_worker()).try_for_each(consume);
    }
    thread::scope(|scope| {
        let mut inputs = Vec::with_capacity(threads.get());
        let mut outputs = Vec::with_capacity(threads.get());
        for _ in 0..threads.get() {
            let (input, items) = sync_channel(QUEUE);
            let (results, output) = sync_channel(QUEUE);
            let new_worker = &new_worker;
            let work = move || {
                let mut worker = new_worker();
                // Sending fails after an error of `consume`.
                items.into_iter().all(|item| results.send(worker(item)).is_ok())
            };
            thread::Builder::new().name("worker".into()).spawn_scoped(scope, work).map_err(&no_thread)?;
            inputs.push(input);
            outputs.push(output);
        }
        // Items and results both go round robin, which keeps the order.
        let hand_out = move || {
            let _ = items.zip(inputs.iter().cycle()).all(|(item, input)| input.send(item).is_ok());
        };
        thread::Builder::new().name("reader".into()).spawn_scoped(scope, hand_out).map_err(&no_thread)?;
        // Moved into the closure, so that an early return closes the channels before the scope waits for its threads.
        let outputs = outputs;
        let mut results = outputs.iter().cycle().map_while(|output| output.recv().ok());
        results.try_for_each(&mut consume)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(threads: usize, items: usize, bad: Option<usize>) -> (Vec<usize>, Result<(), usize>) {
        let mut consumed = Vec::new();
        let slow = || {
            |item: usize| {
                thread::sleep(std::time::Duration::from_micros(300 * (item as u64 % 3)));
                item
            }
        };
        let consume = |item| {
            consumed.push(item);
            if bad.is_some_and(|bad| item >= bad) { Err(item) } else { Ok(()) }
        };
        let threads = NonZeroUsize::new(threads).unwrap();
        let result = map_in_order(threads, 0..items, slow, consume, |error| panic!("no thread: {error}"));
        (consumed, result)
    }

    #[test]
    fn results_keep_the_order_of_items() {
        for threads in [1, 2, 3, 7] {
            for items in [0, 1, 2, 50] {
                let (consumed, result) = run(threads, items, None);
                assert!(result.is_ok() && consumed.into_iter().eq(0..items), "{threads} threads, {items} items");
            }
        }
    }

    #[test]
    fn first_error_ends_the_map() {
        for threads in [1, 2, 5] {
            let (consumed, result) = run(threads, 100, Some(17));
            assert!(consumed.into_iter().eq(0..18) && result == Err(17), "{threads} threads");
        }
    }
}
