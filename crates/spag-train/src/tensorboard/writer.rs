//! The event file of one process.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::record::Event;
use crate::error::{Error, Result};

/// Writes scalars to a file that TensorBoard opens: `tensorboard --logdir DIR`.
///
/// The format is TensorFlow's: `tensorflow/core/util/events_writer.cc` and `event.proto`. Every call ends with a whole
/// record written to the operating system; a kill loses at most one record.
///
/// ```no_run
/// # fn main() -> spag_train::Result<()> {
/// let mut events = spag_train::EventWriter::create("imitation/runs".as_ref(), 0)?;
/// events.scalars(1, &[("train/loss", 2.5), ("train/learning_rate", 5e-6)])?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    path: PathBuf,
}

impl EventWriter {
    /// Creates a file in `dir` for a run that resumes after `start_step` optimizer steps. Creates `dir` if it is missing.
    ///
    /// TensorBoard drops later steps of older files in `dir`: an earlier start may have logged steps after its last
    /// checkpoint, which are taken again.
    ///
    /// The name is TensorFlow's `events.out.tfevents.SECONDS.HOST.PID.N`: TensorBoard reads the files of a folder in
    /// the order of their names. `N` is the first number that is still free.
    ///
    /// # Errors
    /// [`Error::File`] if the folder or file cannot be made or written.
    pub fn create(dir: &Path, start_step: usize) -> Result<Self> {
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let prefix = format!(
            "events.out.tfevents.{}.{}.{}",
            since_epoch().as_secs(),
            gethostname::gethostname().to_string_lossy(),
            std::process::id()
        );
        let (file, path) = create_unused(dir, &prefix)?;
        let mut writer = Self { file, path };
        writer.write(&Event::version(wall_time()))?;
        writer.write(&Event::restart(wall_time(), start_step.saturating_add(1)))?;
        Ok(writer)
    }

    /// Adds the values of one step under their tags. Values that are not finite as 32-bit floats are left out.
    ///
    /// `step` counts optimizer steps taken, this one included.
    ///
    /// # Errors
    /// [`Error::File`] if the file cannot be written.
    pub fn scalars(&mut self, step: usize, values: &[(&str, f64)]) -> Result<()> {
        Event::scalars(wall_time(), step, values).map_or(Ok(()), |event| self.write(&event))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, event: &Event) -> Result<()> {
        // One write per record and no buffer that a kill could lose.
        self.file.write_all(&event.framed()).map_err(Error::io(&self.path))
    }
}

/// Creates `prefix`.N with the first N that no file has.
fn create_unused(dir: &Path, prefix: &str) -> Result<(File, PathBuf)> {
    let mut number = 0_u32;
    loop {
        let path = dir.join(format!("{prefix}.{number}"));
        match File::create_new(&path) {
            Ok(file) => return Ok((file, path)),
            Err(source) if source.kind() == ErrorKind::AlreadyExists && number < u32::MAX => number += 1,
            Err(source) => return Err(Error::io(&path)(source)),
        }
    }
}

fn wall_time() -> f64 {
    since_epoch().as_secs_f64()
}

/// Zero if the clock is set before 1970.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
