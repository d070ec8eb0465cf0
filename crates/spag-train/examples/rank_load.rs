//! How evenly ranks are loaded by a file of samples: `rank_load MODEL SAMPLES MAX_LENGTH BATCH ACCUMULATION RANKS…`, with the passes by
//! tokens and with the reference's micro-batches.

use spag_chat::PromptEncoder;
use spag_model::checkpoint::load_tokenizer;
use spag_rewards::read_samples;
use spag_train::{Dataset, Packing, RankLoad, TrainConfig, TrainMethod};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, samples, numbers @ ..] = &args[..] else {
        return Err("MODEL SAMPLES MAX_LENGTH BATCH ACCUMULATION RANKS…".into());
    };
    let numbers: Vec<usize> = numbers.iter().map(|number| number.parse()).collect::<Result<_, _>>()?;
    let [max_length, batch, accumulation, ranks @ ..] = &numbers[..] else {
        return Err("three numbers and ranks are needed".into());
    };
    let data = Dataset::new(&read_samples(samples)?, &PromptEncoder::new(load_tokenizer(model)?), *max_length)?;
    for ranks in ranks {
        for (name, packing, max_tokens_per_pass) in [
            ("micro-batches", Packing::None, Some(0)),
            ("by tokens", Packing::None, None),
            ("trees", Packing::Tree, None),
        ] {
            let config = TrainConfig {
                method: TrainMethod::Sft,
                num_train_epochs: 1.0,
                per_device_train_batch_size: *batch,
                gradient_accumulation_steps: *accumulation,
                max_length: *max_length,
                packing: Some(packing),
                group_by_game: packing == Packing::Tree,
                max_tokens_per_pass,
                ..TrainConfig::default()
            };
            let RankLoad { steps, passes, tokens, load } = RankLoad::of(&data, &config, *ranks)?;
            println!("{ranks} ranks, {name}: {steps} steps of {passes:.2} passes, {tokens:.0} tokens, load {load:.3}");
        }
    }
    Ok(())
}
