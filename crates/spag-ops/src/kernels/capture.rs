//! Graph capture, generic over the stream.

use candle_core::{Error, Result};

/// A stream whose launches can be captured in a graph. As in `cudarc`, calls that return no result, such as freeing
/// memory, save their error, and the next call returns it instead of running.
pub(super) trait CaptureStream {
    /// An instantiated graph.
    type Graph;

    /// # Errors
    /// The capture could not begin.
    fn begin(&self) -> Result<()>;

    /// Ends the capture. `None` if it has no graph.
    ///
    /// # Errors
    /// The capture is invalid, or there is a saved error; with the latter, the capture has not ended.
    fn end(&self) -> Result<Option<Self::Graph>>;

    /// Returns and clears the saved error.
    fn take_error(&self) -> Result<()>;
}

/// Captures the launches of `work`. After a failure the stream remains usable: the capture has ended, and no error is saved.
///
/// # Errors
/// An error of `work` or of the stream; the message has both.
pub(super) fn capture<S: CaptureStream>(stream: &S, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<S::Graph>> {
    stream.begin()?;
    let worked = work();
    // In an invalid capture, each buffer dropped by `work` saves an error, which would prevent the capture from
    // ending.
    let freed = stream.take_error();
    let (graph, failed) = match stream.end() {
        Ok(graph) => (graph, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let errors: Vec<Error> = [worked, freed, failed].into_iter().filter_map(Result::err).collect();
    let captured = match &errors[..] {
        [] => return Ok(graph),
        [first, rest @ ..] => rest.iter().fold(first.to_string(), |all, error| format!("{all}; {error}")),
    };
    drop(graph);
    // Errors of the calls above, which have already failed.
    let _ = stream.take_error();
    Err(Error::Msg(format!("capturing a graph: {captured}")))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// An error without a backtrace.
    fn failed<T>(what: &str) -> Result<T> {
        Err(Error::Msg(what.into()))
    }

    /// A stream that fails like `cudarc`'s: saved errors precede the work of the next call.
    #[derive(Default)]
    struct Stream {
        capturing: Cell<bool>,
        invalid: Cell<bool>,
        kept: Cell<bool>,
    }

    impl Stream {
        fn launch(&self) -> Result<()> {
            self.take_error()?;
            if self.invalid.get() { failed("the capture is invalid") } else { Ok(()) }
        }

        fn free(&self) {
            self.kept.set(self.kept.get() || self.invalid.get());
        }
    }

    impl CaptureStream for Stream {
        type Graph = ();

        fn begin(&self) -> Result<()> {
            self.take_error()?;
            self.capturing.set(true);
            Ok(())
        }

        fn end(&self) -> Result<Option<()>> {
            self.take_error()?;
            self.capturing.set(false);
            if self.invalid.replace(false) { failed("nothing was captured") } else { Ok(Some(())) }
        }

        fn take_error(&self) -> Result<()> {
            if self.kept.replace(false) { failed("freeing memory failed") } else { Ok(()) }
        }
    }

    #[test]
    fn a_stream_works_after_a_failed_capture() {
        let stream = Stream::default();
        let error = capture(&stream, &mut || {
            stream.launch()?;
            // An operation that cannot be captured, followed by dropped buffers.
            stream.invalid.set(true);
            let failed = stream.launch();
            stream.free();
            stream.free();
            failed
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the capture is invalid; freeing memory failed; nothing was captured"), "{error}");
        assert!(!stream.capturing.get(), "the capture has ended");
        stream.launch().unwrap();
        assert_eq!(capture(&stream, &mut || stream.launch()).unwrap(), Some(()));
    }

    #[test]
    fn an_error_while_freeing_fails_the_capture() {
        let stream = Stream::default();
        let freed = capture(&stream, &mut || {
            stream.kept.set(true);
            Ok(())
        });
        assert!(freed.unwrap_err().to_string().contains("freeing memory failed"));
        stream.launch().unwrap();
    }
}
