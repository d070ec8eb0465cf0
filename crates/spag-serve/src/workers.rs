//! Limits concurrent slow work outside of the network threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::api::ApiError;

/// Worker slots outside of the network threads.
pub(crate) struct Workers {
    places: Arc<Semaphore>,
    number: usize,
}

impl Workers {
    /// A pool with `number` slots.
    pub(crate) fn new(number: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(number)), number }
    }

    /// Runs `work` in a number of slots, capped at all of them. Work that is dropped while it waits is never
    /// started.
    ///
    /// # Errors
    /// The error of `work`, or an internal error if it panics; the panic's text goes to the server's log, not to the
    /// client.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        places: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let fault = || ApiError::server("This request caused a fault of the server, whose output has the cause");
        let wanted = u32::try_from(places.clamp(1, self.number)).unwrap_or(u32::MAX);
        let place = self.places.clone().acquire_many_owned(wanted).await.map_err(|_| fault())?;
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            // The program's panic hook reports it.
            catch_unwind(AssertUnwindSafe(work))
        });
        task.await.map_err(|_| fault())?.unwrap_or_else(|_| Err(fault()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;

    /// Polls once.
    async fn begin<T>(mut future: Pin<&mut impl Future<Output = T>>) {
        poll_fn(|context| {
            assert!(future.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn work_that_is_given_up_while_it_waits_is_not_begun() {
        let workers = Workers::new(1);
        let ((end, ended), (begun, begins)) = (mpsc::channel::<()>(), mpsc::channel());
        let mut first = Box::pin(workers.run(1, move || {
            ended.recv().unwrap();
            Ok(1)
        }));
        begin(first.as_mut()).await;
        {
            let second = pin!(workers.run(1, {
                let begun = begun.clone();
                move || {
                    begun.send(2).unwrap();
                    Ok(())
                }
            }));
            begin(second).await;
        }
        let mut third = Box::pin(workers.run(1, move || {
            begun.send(3).unwrap();
            Ok(())
        }));
        begin(third.as_mut()).await;
        end.send(()).unwrap();
        assert_eq!(first.await, Ok(1));
        assert_eq!(third.await, Ok(()));
        assert_eq!(begins.iter().collect::<Vec<_>>(), [3]);
    }

    #[tokio::test]
    async fn large_work_waits_for_all_places() {
        let workers = Workers::new(2);
        let (end, ended) = mpsc::channel::<()>();
        let mut small = Box::pin(workers.run(1, move || {
            ended.recv().unwrap();
            Ok(())
        }));
        begin(small.as_mut()).await;
        let mut large = Box::pin(workers.run(9, || Ok(())));
        begin(large.as_mut()).await;
        end.send(()).unwrap();
        assert_eq!((small.await, large.await), (Ok(()), Ok(())));
    }

    #[tokio::test]
    async fn texts_of_panics_stay_in_the_server() {
        let error = Workers::new(1).run(1, || -> Result<(), ApiError> { panic!("a secret") }).await.unwrap_err();
        assert!(!error.body().to_string().contains("secret"));
        assert_eq!(error.status, 500);
    }
}
