//! Whether a run fits into memory, asked before anything is loaded, and where the optimizer's state lies.

use spag_model::{
    LlamaConfig, OpenDevice, OptimizerPlace, TooLittleMemory, TrainingMemory, TrainingSettings, free_memory, gib,
};

use crate::config::{OffloadOptimizer, TrainConfig};
use crate::error::Result;

/// What is free, in bytes, and where.
struct Free {
    device: u64,
    host: u64,
    name: String,
}

/// Where the optimizer's state of a run on `device` lies, and that everything has room.
///
/// On a CPU there is one memory, which is left to the operating system.
///
/// # Errors
/// Too little memory, with what is needed, what is free and what to change.
pub fn place_optimizer(
    model: &LlamaConfig,
    config: &TrainConfig,
    offload: OffloadOptimizer,
    device: &OpenDevice,
) -> Result<OptimizerPlace> {
    if device.device().is_cpu() {
        return Ok(OptimizerPlace::Device);
    }
    let host = free_memory(OpenDevice::cpu().device())?.free;
    let free = Free { device: device.memory()?.free, host, name: device.to_string() };
    place(model, config, offload, &free)
}

fn place(model: &LlamaConfig, config: &TrainConfig, offload: OffloadOptimizer, free: &Free) -> Result<OptimizerPlace> {
    let places: &[OptimizerPlace] = match offload {
        OffloadOptimizer::None => &[OptimizerPlace::Device],
        OffloadOptimizer::Cpu => &[OptimizerPlace::Host],
        OffloadOptimizer::Auto => &[OptimizerPlace::Device, OptimizerPlace::Host],
    };
    let mut refused = None;
    for place in places {
        let memory = memory(model, config, *place);
        if memory.on_device() > free.device {
            refused = Some(TooLittleMemory {
                what: "training".into(),
                needed: memory.on_device(),
                free: free.device,
                place: format!("on {}", free.name),
                advice: advice(model, config, *place, free.device),
                table: format!("\n{memory}"),
            });
        } else if memory.on_host() > free.host {
            refused = Some(TooLittleMemory {
                what: "the optimizer's state".into(),
                needed: memory.on_host(),
                free: free.host,
                place: "on the host".into(),
                advice: format!(
                    "on the device, with --offload_optimizer none, the run would need {} there, and {} are free",
                    gib(self::memory(model, config, OptimizerPlace::Device).on_device()),
                    gib(free.device)
                ),
                table: format!("\n{memory}"),
            });
        } else {
            return Ok(*place);
        }
    }
    match refused {
        Some(error) => Err(spag_model::Error::from(error).into()),
        None => Ok(OptimizerPlace::Device),
    }
}

fn memory(model: &LlamaConfig, config: &TrainConfig, optimizer: OptimizerPlace) -> TrainingMemory {
    let settings = TrainingSettings {
        dtype: config.dtype(),
        tokens: config.per_device_train_batch_size.saturating_mul(config.max_length),
        activations: config.activations(),
        optimizer,
    };
    TrainingMemory::new(model, &settings)
}

/// A flag that saves memory, and what it changes.
type Change = (&'static str, fn(&mut TrainConfig, &mut OptimizerPlace));

/// In the order in which they cost least. Parameters in bf16 have master weights, which save nothing on the device unless
/// these are on the host.
const CHANGES: [Change; 4] = [
    ("--gradient_checkpointing True", |config, _| config.gradient_checkpointing = true),
    ("--offload_optimizer cpu", |_, place| *place = OptimizerPlace::Host),
    ("--bf16 True", |config, _| config.bf16 = true),
    ("--per_device_train_batch_size 1 with more --gradient_accumulation_steps", |config, _| {
        config.per_device_train_batch_size = 1;
    }),
];

/// What can be changed, each with what the run would need then, all that came before included.
fn advice(model: &LlamaConfig, config: &TrainConfig, place: OptimizerPlace, free: u64) -> String {
    let (mut config, mut place) = (config.clone(), place);
    let mut needed = memory(model, &config, place).on_device();
    let mut steps = Vec::new();
    for (flag, change) in CHANGES {
        let (mut changed, mut moved) = (config.clone(), place);
        change(&mut changed, &mut moved);
        let now = memory(model, &changed, moved).on_device();
        if needed > free && now < needed {
            steps.push(format!("{flag} ({})", gib(now)));
            (config, place, needed) = (changed, moved, now);
        }
    }
    let last = "a shorter --max_length, a smaller model or a GPU with more memory";
    match (steps.is_empty(), needed <= free) {
        (true, _) => format!("take {last}"),
        (false, true) => format!("change, one after another: {}", steps.join(", ")),
        (false, false) => format!("change, one after another: {}, and take {last}", steps.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn seven_billion() -> LlamaConfig {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        LlamaConfig::from_file(path).unwrap()
    }

    /// Two sequences of 2 048 tokens: 115.3 GiB on the device, or 40.0 GiB there and 75.3 GiB on the host.
    fn config() -> TrainConfig {
        TrainConfig {
            per_device_train_batch_size: 2,
            max_length: 2048,
            bf16: true,
            gradient_checkpointing: true,
            ..TrainConfig::default()
        }
    }

    fn on(device: u64, host: u64) -> Free {
        Free { device: device * GIB, host: host * GIB, name: "cuda:0 (NVIDIA X)".into() }
    }

    fn placed(offload: OffloadOptimizer, free: &Free) -> Result<OptimizerPlace> {
        place(&seven_billion(), &config(), offload, free)
    }

    #[test]
    fn the_optimizer_lies_where_there_is_room() {
        use OffloadOptimizer::{Auto, Cpu, None};
        assert_eq!(placed(Auto, &on(139, 1000)).unwrap(), OptimizerPlace::Device);
        assert_eq!(placed(Auto, &on(79, 1000)).unwrap(), OptimizerPlace::Host);
        assert_eq!(placed(Cpu, &on(139, 1000)).unwrap(), OptimizerPlace::Host);
        assert_eq!(placed(None, &on(139, 0)).unwrap(), OptimizerPlace::Device);
    }

    #[test]
    fn too_little_memory_says_what_to_change() {
        let error = |config: &TrainConfig, offload, free: &Free| {
            place(&seven_billion(), config, offload, free).unwrap_err().to_string()
        };
        let text = error(&config(), OffloadOptimizer::None, &on(79, 1000));
        for part in [
            "training needs 115.32 GiB, and 79.00 GiB are free on cuda:0 (NVIDIA X)",
            "--offload_optimizer cpu (40.01 GiB)\n",
            "AdamW's state (f32)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let plain = TrainConfig { bf16: false, gradient_checkpointing: false, ..config() };
        let text = error(&plain, OffloadOptimizer::None, &on(24, 1000));
        let flags = ["--gradient_checkpointing True", "--offload_optimizer cpu", "--bf16 True", "train_batch_size 1"];
        let places: Vec<usize> = flags.iter().map(|flag| text.find(flag).unwrap()).collect();
        assert!(places.is_sorted() && text.contains("a smaller model or a GPU with more memory"), "{text}");
        let text = error(&config(), OffloadOptimizer::Auto, &on(79, 64));
        assert!(text.contains("the optimizer's state needs 75.31 GiB, and 64.00 GiB are free on the host"), "{text}");
        assert!(text.contains("would need 115.32 GiB there, and 79.00 GiB are free"), "{text}");
    }
}
