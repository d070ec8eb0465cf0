//! Mutual exclusion of threads on one device, in FIFO order.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// FIFO turns on a device.
///
/// A device has one stream, which orders the launches, allocations and frees of all threads. While one thread captures a
/// graph, those of another would be captured too, and freeing memory would invalidate the capture. So a thread holds a
/// turn for everything that it does on a shared device: a step of an engine, including the memory that the step frees. A
/// lock around single launches would not suffice, since tensors are freed without a call of [`Kernels`](super::Kernels),
/// and separate streams would need memory that is not reused while a graph lives. Turns cost little: the device executes
/// one stream in order anyway.
#[derive(Debug, Default)]
pub struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Tickets: the next one to be issued, and that of the thread whose turn it is. A plain lock could starve other threads,
/// since an engine asks for its next turn immediately.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    current: u64,
}

/// A turn; ends on drop.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for this thread's turn. A thread that holds a turn must not wait.
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
