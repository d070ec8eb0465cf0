//! Graph captures of decoding passes concurrent with work of other threads, and failing captures.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use candle_core::{DType, Result, Tensor, bail};
use spag_emulator::{Emulator, Place};
use spag_model::generate::Prompt;
use spag_model::{Checkpoint, Engine, Generate, GenerationConfig, Request};
use spag_ops::kernels::{self, CapturedGraph, Gemm, Kernels, Launch, Mark, PageLock, Transfer, Turns};
use spag_tests::fixture;

use super::{copied, small_engine};

/// An emulator that calls a function at the start of every capture; if it fails, the capture fails.
struct Hooked<F> {
    emulator: Emulator,
    in_capture: F,
}

impl<F: Fn() -> Result<()> + Send + Sync> Kernels for Hooked<F> {
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn CapturedGraph>>> {
        self.emulator.capture(&mut || {
            (self.in_capture)()?;
            work()
        })
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.emulator.launch(launch)
    }

    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()> {
        self.emulator.gemm(gemm)
    }

    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        self.emulator.empty(shape, dtype)
    }

    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        self.emulator.copy(from, to)
    }

    fn start_download(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer> {
        self.emulator.start_download(from, to, after)
    }

    fn start_upload(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer> {
        self.emulator.start_upload(from, to, after)
    }

    fn page_lock(&self, tensor: &Tensor) -> Result<PageLock> {
        self.emulator.page_lock(tensor)
    }

    fn synchronize(&self) -> Result<()> {
        self.emulator.synchronize()
    }

    fn turns(&self) -> &Turns {
        self.emulator.turns()
    }

    fn max_shared_bytes(&self) -> usize {
        self.emulator.max_shared_bytes()
    }
}

fn engine() -> Engine {
    let Checkpoint { model, tokenizer } = Checkpoint::load(fixture("families/qwen3")).unwrap();
    let model = copied(&model, &Place::cpu());
    Engine::new(&Checkpoint { model, tokenizer }, small_engine(8, 2)).unwrap()
}

/// The tokens after a prompt that begins with `first`.
fn answer(engine: &mut Engine, first: u32) -> Vec<u32> {
    let config = GenerationConfig { max_new_tokens: 6, min_new_tokens: 6, ..GenerationConfig::default() };
    let prompt = Prompt::Tokens((first..first + 9).collect());
    let request = Request { prompt, seed: 1, config: Arc::new(config) };
    engine.generate(vec![request]).unwrap().remove(0).token_ids
}

#[test]
fn engines_on_one_device_do_not_capture_each_others_work() {
    let alone = |first| kernels::using(Arc::new(Emulator::default()), || answer(&mut engine(), first));
    let want = [alone(1), alone(30)];
    let (capturing, captured) = mpsc::channel();
    let in_capture = move || {
        // Gives the other engine time for its own passes, if it is allowed to run.
        if capturing.send(()).is_ok() {
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    };
    let device = Arc::new(Hooked { emulator: Emulator::default(), in_capture });
    std::thread::scope(|scope| {
        let one = scope.spawn(|| kernels::using(device.clone(), || answer(&mut engine(), 1)));
        let other = scope.spawn(|| {
            kernels::using(device.clone(), || {
                let mut engine = engine();
                captured.recv().unwrap();
                drop(captured);
                answer(&mut engine, 30)
            })
        });
        assert_eq!([one.join().unwrap(), other.join().unwrap()], want);
    });
}

#[test]
fn a_failed_capture_is_reported_and_its_passes_run_eagerly() {
    let want = kernels::using(Arc::new(Emulator::default()), || answer(&mut engine(), 1));
    let captures = Arc::new(AtomicU32::new(0));
    let count = captures.clone();
    let in_capture = move || bail!("capture {} is not possible", count.fetch_add(1, Ordering::Relaxed));
    kernels::using(Arc::new(Hooked { emulator: Emulator::default(), in_capture }), || {
        let mut engine = engine();
        assert_eq!(engine.capture_failure(), None);
        assert_eq!(answer(&mut engine, 1), want);
        assert!(captures.load(Ordering::Relaxed) > 0, "no pass was captured");
        let failure = engine.capture_failure().unwrap();
        assert!(failure.starts_with("capture 0 is not possible"), "{failure}");
    });
}
