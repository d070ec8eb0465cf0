//! Work that several threads share, and whose results come in the order of what went in.

use std::{num::NonZeroUsize, sync::mpsc::sync_channel, thread};

use crate::Result;

/// Blocks and results that wait for each worker; so memory is bounded.
const WAITING: usize = 2;

/// Hands every item of `items` to one of `threads` workers, and their results to `take`, in order.
///
/// `worker` makes a worker, which keeps what it likes between items. The first error of `take` ends it all, so what comes
/// of it is the same whatever the number of threads. One thread does everything itself.
pub(crate) fn in_order<T, R, W>(
    threads: NonZeroUsize,
    items: impl Iterator<Item = T> + Send,
    worker: impl Fn() -> W + Sync,
    mut take: impl FnMut(R) -> Result<()>,
) -> Result<()>
where
    T: Send,
    R: Send,
    W: FnMut(T) -> R,
{
    if threads.get() == 1 {
        return items.map(worker()).try_for_each(take);
    }
    thread::scope(|scope| {
        let mut inputs = Vec::with_capacity(threads.get());
        let mut outputs = Vec::with_capacity(threads.get());
        for _ in 0..threads.get() {
            let (input, items) = sync_channel(WAITING);
            let (results, output) = sync_channel(WAITING);
            let worker = &worker;
            scope.spawn(move || {
                let mut work = worker();
                // Nobody takes results any more once an error has come up.
                items.into_iter().all(|item| results.send(work(item)).is_ok())
            });
            inputs.push(input);
            outputs.push(output);
        }
        // Turn by turn, on both sides: so the order needs no numbers.
        scope.spawn(move || {
            let _ = items.zip(inputs.iter().cycle()).all(|(item, input)| input.send(item).is_ok());
        });
        // The first worker that has nothing more to give is the one whose turn comes after the last item.
        // Moved in here, so that the ends of the workers' channels are gone before the threads are waited for.
        let outputs = outputs;
        let mut results = outputs.iter().cycle().map_while(|output| output.recv().ok());
        results.try_for_each(&mut take)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn run(threads: usize, items: usize, bad: Option<usize>) -> (Vec<usize>, Result<()>) {
        let mut taken = Vec::new();
        let threads = NonZeroUsize::new(threads).unwrap();
        let slow = || {
            |item: usize| {
                // Some take longer than those after them.
                thread::sleep(std::time::Duration::from_micros(300 * (item as u64 % 3)));
                item
            }
        };
        let end = in_order(threads, 0..items, slow, |item| {
            taken.push(item);
            match bad {
                Some(bad) if item >= bad => Err(Error::DecayWeight { given: item as f64 }),
                _ => Ok(()),
            }
        });
        (taken, end)
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            for items in [0, 1, 2, 50] {
                let (taken, end) = run(threads, items, None);
                assert!(end.is_ok() && taken.into_iter().eq(0..items), "{threads} threads, {items} items");
            }
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in [1, 2, 5] {
            let (taken, end) = run(threads, 100, Some(17));
            assert!(taken.into_iter().eq(0..18), "{threads} threads");
            assert!(matches!(end, Err(Error::DecayWeight { given: 17.0 })));
        }
    }
}
