//! The files of a checkpoint, and the rank that writes each.

use std::path::Path;

use spag_dist::{ProcessGroup, broadcast_text, gather_numbers};
use spag_model::checkpoint::{ADAPTER, MODEL, ShardFiles, WriteOptions, WrittenFile};
use spag_model::params::WeightSource;

use super::TRAINER_STATE;
use crate::error::{Error, Result};
use crate::learner::Learner;

/// Smaller files are not divided among ranks.
const LEAST_SHARE: u64 = 64 << 20;
/// A file in `trainer_state` while ranks look for the folder.
const PROBE: &str = "probe";

/// The files of one stem.
#[derive(Clone, Debug)]
pub(super) struct Stem {
    files: ShardFiles,
    /// The folder inside the checkpoint, or nothing.
    folder: &'static str,
}

impl Stem {
    /// Writes a file; its name is that inside the checkpoint.
    pub(super) fn write(
        &self,
        dir: &Path,
        file: usize,
        tensors: &dyn Fn(usize, usize) -> spag_model::Result<candle_core::Tensor>,
    ) -> Result<WrittenFile> {
        let written = self.files.write(&dir.join(self.folder), file, tensors)?;
        let name = match self.folder {
            "" => written.name,
            folder => format!("{folder}/{}", written.name),
        };
        Ok(WrittenFile { name, ..written })
    }

    /// Writes the index, after all files.
    pub(super) fn finish(&self, dir: &Path) -> Result<()> {
        Ok(self.files.finish(&dir.join(self.folder))?)
    }

    /// The files.
    pub(super) fn files(&self) -> &ShardFiles {
        &self.files
    }
}

/// The weights and buffers of a checkpoint, in the order in which they are gathered.
pub(super) struct Parts<'a> {
    pub(super) stems: Vec<Stem>,
    /// Of each stem.
    sources: Vec<Source<'a>>,
}

enum Source<'a> {
    Trained(&'a dyn WeightSource),
    Optimizer(Box<dyn WeightSource>),
}

impl<'a> Parts<'a> {
    /// Those of a learner, in files that as many ranks can write.
    pub(super) fn of(learner: &'a Learner, options: WriteOptions, writers: usize) -> Self {
        let mut parts = Self { stems: Vec::new(), sources: Vec::new() };
        let (stem, trained) = (if learner.adapter().is_some() { ADAPTER } else { MODEL }, learner.trained());
        parts.push(stem, "", Source::Trained(trained), options, writers);
        for (buffer, source) in learner.state().optimizer_state() {
            parts.push(buffer.name, TRAINER_STATE, Source::Optimizer(source), WriteOptions::new(buffer.dtype), writers);
        }
        parts
    }

    fn push(&mut self, stem: &str, folder: &'static str, source: Source<'a>, options: WriteOptions, writers: usize) {
        let layout = source.weights().layout();
        let bytes = (layout.len() * options.dtype.bytes()) as u64;
        let share = bytes.div_ceil(writers.max(1) as u64).max(LEAST_SHARE);
        self.stems.push(Stem { files: ShardFiles::new(layout, stem, options.at_most(share)), folder });
        self.sources.push(source);
    }

    /// The weights or buffers of each stem.
    pub(super) fn sources(&self) -> impl Iterator<Item = &dyn WeightSource> {
        self.sources.iter().map(Source::weights)
    }

    /// The files, by stem and number, that a rank writes.
    pub(super) fn of_rank(&self, rank: usize, writers: &[usize]) -> Vec<(usize, usize)> {
        let files =
            self.stems.iter().enumerate().flat_map(|(stem, of)| (0..of.files.count()).map(move |file| (stem, file)));
        let writer = |number: usize| writers.get(number % writers.len().max(1)).copied().unwrap_or_default();
        files.enumerate().filter(|(number, _)| writer(*number) == rank).map(|(_, file)| file).collect()
    }
}

impl Source<'_> {
    fn weights(&self) -> &dyn WeightSource {
        match self {
            Self::Trained(weights) => *weights,
            Self::Optimizer(weights) => &**weights,
        }
    }
}

/// The ranks on whose file system the folder is that rank 0 has made: rank 0 at least.
pub(super) fn ranks_with(group: &dyn ProcessGroup, folder: &Path) -> Result<Vec<usize>> {
    if group.size() == 1 {
        return Ok(vec![0]);
    }
    let probe = folder.join(TRAINER_STATE).join(PROBE);
    // Another folder of the same name must not be taken for this one.
    let secret = broadcast_text(group, &format!("{:032x}", rand::random::<u128>()))?;
    let is_first = group.rank() == 0;
    let written = if is_first { std::fs::write(&probe, &secret).map_err(Error::io(&probe)) } else { Ok(()) };
    group.barrier()?;
    let sees = is_first || std::fs::read_to_string(&probe).is_ok_and(|found| found == secret);
    let all = gather_numbers(group, &[f64::from(u8::from(sees))])?;
    if is_first {
        written?;
        std::fs::remove_file(&probe).map_err(Error::io(&probe))?;
    }
    Ok((0..all.len()).filter(|rank| all[*rank][0] == 1.0).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spag_model::dtype::WeightDtype;
    use spag_model::{Model, ModelConfig};

    use super::*;
    use crate::config::TrainConfig;

    #[test]
    fn each_file_has_one_writer_and_shares_are_even() {
        let config: ModelConfig = serde_json::from_str(
            r#"{"hidden_size": 64, "intermediate_size": 64, "vocab_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}"#,
        )
        .unwrap();
        let model = Model::init(&config, 1).unwrap();
        let learner = Learner::new(&model, &TrainConfig::default(), 1).unwrap();
        let files = |bytes: u64, writers: &[usize]| {
            let parts = Parts::of(&learner, WriteOptions::new(WeightDtype::F32).at_most(bytes), writers.len());
            let of = |rank| parts.of_rank(rank, writers);
            assert_eq!(parts.stems.len(), 3, "a model and two moments");
            let all: Vec<(usize, usize)> = (0..8).flat_map(of).collect();
            let distinct: BTreeSet<(usize, usize)> = all.iter().copied().collect();
            let count = parts.stems.iter().map(|stem| stem.files.count()).sum::<usize>();
            assert_eq!((all.len(), distinct.len()), (count, count), "a file is missing, or has two writers");
            (0..8).map(|rank| of(rank).len()).collect::<Vec<usize>>()
        };
        // One file a stem.
        assert_eq!(files(u64::MAX, &[0]), [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(files(u64::MAX, &[0, 1, 2, 5]), [1, 1, 1, 0, 0, 0, 0, 0]);
        let shares = files(100_000, &[0, 1, 2, 5]);
        assert!(shares.iter().sum::<usize>() > 6, "{shares:?}");
        let those = [0, 1, 2, 5].map(|rank| shares[rank]);
        assert!(those.iter().max().unwrap() - those.iter().min().unwrap() <= 1, "{shares:?}");
    }
}
