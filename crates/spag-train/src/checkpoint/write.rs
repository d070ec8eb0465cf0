//! Writing a checkpoint: under a temporary name, renamed when it is complete. Every rank that has the folder writes a share of the
//! files on a thread of its own, from copies of the layers, while training goes on.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use candle_core::{Device, Tensor};
use spag_dist::{ProcessGroup, gather_lists, gather_numbers};
use spag_io::{sync_folder, write_json_atomically};
use spag_model::checkpoint::{WriteOptions, WrittenFile, write_config};
use spag_model::generate::MemoryBudget;
use spag_model::params::{WeightSource, each_layer};
use spag_ops::free_memory;

use super::origin::Origin;
use super::shares::{Parts, Stem, ranks_with};
use super::state::{DataPosition, FORMAT, SavedState};
use super::{STATE_FILE, TRAINER_STATE, folders};
use crate::batch_sampler::BatchSampler;
use crate::error::{Error, Result};
use crate::learner::Learner;

/// Copied layers that wait for the disk if memory has no room for all.
const FEW_LAYERS: usize = 2;
/// Interval at which a rank that waits for a checkpoint looks whether it is written.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Gathers every layer in the order in which rank 0 writes them. It does not read layers without tensors, which adapters have.
pub(crate) fn gather_layers(source: &dyn WeightSource) -> Result<()> {
    Ok(each_layer(source, |_, _| Ok(()))?)
}

/// `checkpoint-<step>`, which the ranks are writing.
pub(crate) struct Writing {
    output_dir: PathBuf,
    temporary: PathBuf,
    step: usize,
    stems: Arc<Vec<Stem>>,
    /// Writes the files of this rank.
    thread: Option<JoinHandle<Result<Vec<WrittenFile>>>>,
    /// The thread's work is not needed any more.
    stopped: Arc<AtomicBool>,
    /// The files of this rank, when they are written.
    written: Option<Vec<WrittenFile>>,
    /// Rank 0 completes the checkpoint with the state of the run.
    state: Option<SavedState>,
    ranks: usize,
    published: bool,
}

/// A copy of a layer.
struct Layer {
    stem: usize,
    layer: usize,
    buffer: Tensor,
}

impl Writing {
    /// Begins to write a checkpoint of the learner's weights, optimizer and position, which may change then. Rank 0 knows the origin. All
    /// ranks have to call it.
    ///
    /// # Errors
    /// The folder cannot be written, or a lost rank. Existing checkpoints are kept.
    pub(crate) fn start(
        output_dir: &Path,
        learner: &Learner,
        options: WriteOptions,
        origin: Option<&Origin<'_>>,
    ) -> Result<Self> {
        let (group, step) = (learner.group(), learner.position().step);
        let mut writing = Self {
            output_dir: output_dir.to_owned(),
            temporary: output_dir.join(folders::unfinished_name(step)),
            step,
            stems: Arc::default(),
            thread: None,
            stopped: Arc::default(),
            written: None,
            state: origin.map(|origin| state(learner, origin)),
            ranks: group.size(),
            published: false,
        };
        if let Some(origin) = origin {
            begin(&writing.temporary, learner, options, origin)?;
        }
        let writers = ranks_with(group, &writing.temporary)?;
        let parts = Parts::of(learner, options, writers.len());
        let own = parts.of_rank(group.rank(), &writers);
        writing.stems = Arc::new(parts.stems.clone());
        let needed = needed_layers(&parts, &own);
        let bytes = |(stem, layers): (usize, &Vec<usize>)| {
            let layout = parts.stems[stem].files().layout();
            layers.iter().map(|layer| layout.layers[*layer].len as u64 * 4).sum::<u64>()
        };
        let copies = needed.iter().enumerate().map(bytes).sum::<u64>();
        let room = free_memory(&Device::Cpu)?.free / MemoryBudget::HOST_SHARE / group.size() as u64;
        let waiting = if copies <= room { needed.iter().map(Vec::len).sum::<usize>() } else { FEW_LAYERS };
        let (layers, received) = sync_channel(waiting.max(1));
        let (stems, dir, stopped) = (writing.stems.clone(), writing.temporary.clone(), writing.stopped.clone());
        let write = move || write_files(&stems, &own, &dir, &received, &stopped);
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(write);
        writing.thread = Some(thread.map_err(Error::io(&writing.temporary))?);
        for (stem, source) in parts.sources().enumerate() {
            each_layer(source, |layer, buffer| copy_layer(&needed[stem], (stem, layer), buffer, &layers))?;
        }
        Ok(writing)
    }

    /// Completes the checkpoint if all ranks have written their files, and returns whether it did. All ranks have to call it.
    ///
    /// # Errors
    /// A file of this rank could not be written, or a lost rank. Existing checkpoints are kept.
    pub(crate) fn poll(&mut self, group: &dyn ProcessGroup) -> Result<bool> {
        if self.written.is_none()
            && let Some(thread) = self.thread.take_if(|thread| thread.is_finished())
        {
            self.written = Some(joined(thread)?);
        }
        let own = f64::from(u8::from(self.written.is_some()));
        if gather_numbers(group, &[own])?.iter().flatten().any(|written| *written == 0.0) {
            return Ok(false);
        }
        // A failure from here on is not tried again when this is dropped.
        let files = gather_lists(group, &self.written.take().unwrap_or_default())?;
        self.publish(files)?;
        Ok(true)
    }

    /// Waits until the checkpoint is complete. All ranks have to call it.
    ///
    /// # Errors
    /// As [`Writing::poll`].
    pub(crate) fn finish(mut self, group: &dyn ProcessGroup) -> Result<()> {
        while !self.poll(group)? {
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Writes the indexes and the state of the run, and renames the folder. Replaces a checkpoint of the same step.
    fn publish(&mut self, mut files: Vec<WrittenFile>) -> Result<()> {
        if let Some(state) = self.state.clone() {
            let (dir, inner) = (&self.temporary, self.temporary.join(TRAINER_STATE));
            self.stems.iter().try_for_each(|stem| stem.finish(dir))?;
            files.sort_by(|a, b| a.name.cmp(&b.name));
            write_json_atomically(inner.join(STATE_FILE), &SavedState { files, ..state })?;
            sync_folder(&inner)?;
            sync_folder(dir)?;
            let path = self.output_dir.join(folders::name(self.step));
            if path.symlink_metadata().is_ok() {
                folders::remove(&self.output_dir, self.step, &path)?;
            }
            fs::rename(dir, &path).map_err(Error::io(&path))?;
            sync_folder(&self.output_dir)?;
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        // What one process has copied is complete, whatever has ended its training. Of several, none knows the others' files.
        self.stopped.store(self.ranks > 1, Ordering::Release);
        let written = self.written.take().or_else(|| self.thread.take().and_then(|thread| joined(thread).ok()));
        let is_first = self.state.is_some();
        let published = self.ranks == 1 && written.is_some_and(|files| self.publish(files).is_ok());
        if is_first && !published {
            // Best effort, and it frees a full disk; the first error is the caller's.
            let _ = fs::remove_dir_all(&self.temporary);
        }
    }
}

fn joined(thread: JoinHandle<Result<Vec<WrittenFile>>>) -> Result<Vec<WrittenFile>> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Makes the folder, with all but the weights and the state.
fn begin(dir: &Path, learner: &Learner, options: WriteOptions, origin: &Origin<'_>) -> Result<()> {
    let _ = fs::remove_dir_all(dir);
    let inner = dir.join(TRAINER_STATE);
    fs::create_dir_all(&inner).map_err(Error::io(&inner))?;
    match learner.adapter() {
        Some(adapter) => adapter.save_settings(dir)?,
        None => write_config(learner.network().config(), Some(origin.tokenizer), dir, options)?,
    }
    Ok(origin.made_from.write_of(dir)?)
}

/// The state of the run, without the files.
fn state(learner: &Learner, origin: &Origin<'_>) -> SavedState {
    let (step, sampler) = (learner.position().step, BatchSampler::new(origin.config, origin.samples, origin.ranks));
    SavedState {
        format: FORMAT,
        program: concat!("spag-train ", env!("CARGO_PKG_VERSION")).into(),
        position: learner.position().clone(),
        data_order: DataPosition {
            epoch: sampler.epochs_after(step),
            micro_batches: sampler.micro_batches_after(step),
        },
        optimizer_updates: learner.optimizer().updates(),
        config: origin.config.clone(),
        scheduler: origin.scheduler_value(),
        data_sha256: origin.data_sha256.to_owned(),
        samples: origin.samples,
        ranks: origin.ranks,
        reference_sha256: origin.reference_sha256.clone(),
        files: Vec::new(),
    }
}

/// The layers of each stem that a rank's files need, ascending.
fn needed_layers(parts: &Parts<'_>, own: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut needed = vec![Vec::new(); parts.stems.len()];
    for (stem, file) in own {
        needed[*stem].extend(parts.stems[*stem].files().layers(*file));
        needed[*stem].dedup();
    }
    needed
}

/// Copies a layer to the host for the thread, if it needs it.
fn copy_layer(
    needed: &[usize],
    (stem, layer): (usize, usize),
    buffer: &Tensor,
    layers: &SyncSender<Layer>,
) -> spag_model::Result<()> {
    if needed.contains(&layer) {
        let buffer = if buffer.device().is_cpu() { buffer.copy()? } else { buffer.to_device(&Device::Cpu)? };
        // A thread that has ended has failed, and says so where it is joined. The other ranks still need this one to gather.
        let _ = layers.send(Layer { stem, layer, buffer });
    }
    Ok(())
}

/// Writes files from the layers that arrive.
fn write_files(
    stems: &[Stem],
    own: &[(usize, usize)],
    dir: &Path,
    layers: &Receiver<Layer>,
    stopped: &AtomicBool,
) -> Result<Vec<WrittenFile>> {
    // The last layer that has arrived, which the next file may need, too.
    let current: RefCell<Option<Layer>> = RefCell::default();
    let ended = || spag_model::Error::WeightSource("the checkpoint is not needed any more".into());
    let write = |(stem, file): &(usize, usize)| {
        let layout = stems[*stem].files().layout();
        stems[*stem].write(dir, *file, &|layer, view| {
            let mut current = current.borrow_mut();
            loop {
                if stopped.load(Ordering::Acquire) {
                    return Err(ended());
                }
                match &*current {
                    Some(here) if (here.stem, here.layer) == (*stem, layer) => {
                        return layout.view(&here.buffer, layer, view);
                    }
                    _ => *current = Some(layers.recv().map_err(|_| ended())?),
                }
            }
        })
    };
    own.iter().map(write).collect()
}
