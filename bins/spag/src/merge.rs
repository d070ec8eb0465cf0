//! `spag merge`: writes a model with the weights of an adapter added.

use std::path::PathBuf;

use clap::Args;
use spag_io::{CommandFiles, Contents};
use spag_model::Checkpoint;
use spag_model::adapter::Adapter;
use spag_model::checkpoint::{ShardSize, WriteOptions, load_config, load_notes};
use spag_model::dtype::WeightDtype;
use spag_run::Provenance;

use spag_cli::{OverwriteArgs, Result, exit, threads};

/// Add the weights of a LoRA adapter to a model's and write the sum.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct MergeArgs {
    /// The model: a folder, or a GGUF file.
    #[arg(long, visible_alias = "model_name_or_path", value_name = "PATH")]
    model: PathBuf,
    /// The adapter: a folder of PEFT with adapter_config.json and adapter_model.safetensors.
    #[arg(long, value_name = "DIR")]
    adapter: PathBuf,
    /// Number format of the written weights: f32 or bf16 [default: that of the model's config.json]. Sums are made in f32.
    #[arg(long, value_name = "TYPE")]
    dtype: Option<WeightDtype>,
    /// Largest file of weights, such as 5GB, 200MB or a number of bytes. A larger model is written as several files with an
    /// index.
    #[arg(long, value_name = "SIZE", default_value = "5GB")]
    max_shard_size: ShardSize,
    /// Folder of the sum.
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    #[command(flatten)]
    overwrite: OverwriteArgs,
}

pub(crate) fn run(args: MergeArgs) -> Result<()> {
    let mut files = CommandFiles::default().read("--model", &args.model).read("--adapter", &args.adapter);
    files.write_folder("--output_dir", &args.output_dir, &[Contents::Model], args.overwrite.kept())?;
    threads::start()?;
    let config = load_config(&args.model)?;
    let adapter = Adapter::load_for(&args.adapter, &args.model)?;
    let dtype = args.dtype.unwrap_or(WeightDtype::stored(&config));
    for note in load_notes(&args.model)? {
        exit::note(format_args!("note: {note}"));
    }
    let checkpoint = Checkpoint::load(&args.model)?;
    adapter.merge_into(checkpoint.model.parameters())?;
    checkpoint.save(&args.output_dir, WriteOptions::new(dtype).sharded(args.max_shard_size))?;
    // What the model was made from holds for the sum.
    Provenance::read_of(&args.model)?.unwrap_or_default().write_of(&args.output_dir)?;
    exit::say(format_args!(
        "{} parameters of the adapter added to {} in {}",
        adapter.len(),
        args.model.display(),
        args.output_dir.display()
    ))
}
