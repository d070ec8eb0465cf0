//! `spag init-model`: a checkpoint of random weights.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spag_model::{Checkpoint, Llama, LlamaConfig, SpecialIds, Tokenizer, WeightDtype, WriteOptions};

use crate::{Error, Result, exit};

/// Make a checkpoint of random weights from a config.json.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct InitModelArgs {
    /// The architecture, as Hugging Face writes it.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The tokenizer.json to go with it; by default the one beside --config.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
    /// Number format of the saved weights.
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Folder of the checkpoint.
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
}

/// `--dtype`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    /// 32 bits.
    F32,
    /// 16 bits with the range of f32.
    Bf16,
}

pub(crate) fn run(args: InitModelArgs) -> Result<()> {
    let config = LlamaConfig::from_file(&args.config)?;
    let beside = args.config.with_file_name("tokenizer.json");
    let path = match args.tokenizer {
        Some(path) => path,
        None if beside.is_file() => beside,
        None => {
            let problem = format!("none is named, and there is no {}", beside.display());
            return Err(Error::BadValue { flag: "--tokenizer".into(), problem });
        }
    };
    let tokenizer = Tokenizer::from_file(&path, SpecialIds { bos: config.bos_token_id, eos: config.eos_token_id })?;
    if tokenizer.vocab_size() > config.vocab_size {
        let (pieces, rows) = (tokenizer.vocab_size(), config.vocab_size);
        let problem =
            format!("it has {pieces} pieces, more than the {rows} of vocab_size in {}", args.config.display());
        return Err(Error::BadValue { flag: format!("--tokenizer {}", path.display()), problem });
    }
    let model = Llama::init(&config, args.seed)?;
    let parameters = model.parameters().layout().len();
    let dtype = match args.dtype {
        Dtype::F32 => WeightDtype::F32,
        Dtype::Bf16 => WeightDtype::Bf16,
    };
    Checkpoint { model, tokenizer }.save(&args.output_dir, WriteOptions::new(dtype))?;
    exit::say(format_args!("{parameters} parameters drawn from seed {} in {}", args.seed, args.output_dir.display()))
}
