//! `spag init-model`: writes a checkpoint with random weights.

use std::path::{Path, PathBuf};

use clap::Args;
use spag_model::checkpoint::{ShardSize, WriteOptions, python_files, write_random_model};
use spag_model::dtype::WeightDtype;
use spag_model::params::Layout;
use spag_model::tokenizer::SpecialIds;
use spag_model::{ModelConfig, Tokenizer};

use spag_cli::{Error, OverwriteArgs, Result, exit, threads};
use spag_io::{CommandFiles, Contents};

/// Write a checkpoint with random weights for a config.json.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct InitModelArgs {
    /// The architecture: a config.json of Hugging Face.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The tokenizer: a tokenizer.json, a tokenizer.model, a GGUF file, or a folder with one of the former two [default: the one beside --config, if any].
    /// Without a tokenizer the checkpoint can be timed but not trained.
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Number format of the weights: f32 or bf16.
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    dtype: WeightDtype,
    /// Largest file of weights, such as 5GB, 200MB or a number of bytes. A larger model is written as several files with an
    /// index.
    #[arg(long, value_name = "SIZE", default_value = "5GB")]
    max_shard_size: ShardSize,
    /// Folder of the checkpoint.
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    overwrite: OverwriteArgs,
}

pub(crate) fn run(args: InitModelArgs) -> Result<()> {
    let config = ModelConfig::from_file(&args.config)?;
    threads::start()?;
    let beside = || {
        let name = Tokenizer::find(args.config.parent().unwrap_or(Path::new("")))?;
        Some(args.config.with_file_name(name))
    };
    let path = args.tokenizer.or_else(beside);
    let mut files = CommandFiles::default().read("--config", &args.config).read_all("--tokenizer", &path);
    files.write_folder("--output_dir", &args.output_dir, &[Contents::Model], args.overwrite.kept())?;
    let tokenizer = path.map(|path| tokenizer(&path, &config, &args.config)).transpose()?;
    let options = WriteOptions::new(args.dtype).sharded(args.max_shard_size);
    write_random_model(&config, args.seed, tokenizer.as_ref(), &args.output_dir, options)?;
    let without = if tokenizer.is_some() { "" } else { ", without a tokenizer" };
    exit::say(format_args!(
        "{} parameters drawn from seed {} in {}{without}",
        Layout::new(&config.architecture).len(),
        args.seed,
        args.output_dir.display()
    ))
}

/// Reads a tokenizer and checks that it fits the model.
fn tokenizer(path: &Path, config: &ModelConfig, config_path: &Path) -> Result<Tokenizer> {
    let ids = SpecialIds::from(config);
    let tokenizer = if path.is_dir() { Tokenizer::from_dir(path, ids) } else { Tokenizer::from_file(path, ids) }?;
    if tokenizer.vocab_size() > config.architecture.vocab_size {
        let (pieces, rows) = (tokenizer.vocab_size(), config.architecture.vocab_size);
        let problem =
            format!("it has {pieces} pieces, more than the {rows} of vocab_size in {}", config_path.display());
        return Err(Error::BadValue { flag: format!("--tokenizer {}", path.display()), problem });
    }
    let folder = config_path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(tokenizer.with_files(python_files(folder)?))
}
