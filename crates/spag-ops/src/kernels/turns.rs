//! Threads that use one device take turns.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Turns on a device, in the order in which threads ask for them.
///
/// A device has one stream, on which threads' launches, allocations and frees are ordered. While one thread captures a
/// graph, those of another would become part of the graph, and memory that it frees would end the capture. So a thread
/// holds a turn for all that it does on a device that others use too: a step of an engine, including the memory that the
/// step frees. A lock around single launches would not do, since tensors are freed without a call of
/// [`Kernels`](super::Kernels), and streams of their own would need memory that is not reused while a graph lives. Turns
/// cost little: the device runs the work of one stream in order anyway.
#[derive(Debug, Default)]
pub struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Tickets: the next one to be given out, and that of the thread whose turn it is. A plain lock could go to the same thread
/// again and again, since an engine asks for its next turn at once.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    current: u64,
}

/// A turn, which ends when it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for this thread's turn. A thread must not wait while it has one.
    pub fn wait(&self) -> Turn<'_> {
        let mut queue = self.queue();
        let own = queue.next;
        queue.next += 1;
        drop(self.changed.wait_while(queue, |queue| queue.current != own).unwrap_or_else(PoisonError::into_inner));
        Turn(self)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.queue().current += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns_in_the_order_in_which_they_ask() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let first = turns.wait();
            for thread in 1..4 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.wait();
                    order.lock().unwrap().push(thread);
                });
                while turns.queue().next <= thread {
                    std::thread::yield_now();
                }
            }
            assert!(order.lock().unwrap().is_empty());
            drop(first);
            // Asks last.
            let _turn = turns.wait();
            order.lock().unwrap().push(4);
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
    }
}
