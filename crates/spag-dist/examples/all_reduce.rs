//! One rank of a measurement: how fast buffers are summed over all ranks. Start it under a launcher, once a rank.
//!
//! Arguments: the rounds, then sizes in bytes. Rank 0 prints the seconds of every round, a line a size.

use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use spag_dist::{JoinOptions, LaunchEnv, join};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|text| text.parse());
    let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
    let Some((rounds, sizes)) = numbers.split_first() else {
        return Err("name the rounds, then sizes in bytes".into());
    };
    let group = join(&LaunchEnv::detect()?, &JoinOptions::detect()?)?;
    for bytes in sizes {
        let buffer = Tensor::ones(bytes / 4, DType::F32, &Device::Cpu)?;
        let mut seconds = Vec::new();
        // The first round finds memory and connections cold.
        for _ in 0..rounds + 1 {
            group.barrier()?;
            let begin = Instant::now();
            group.all_reduce(&buffer)?;
            seconds.push(begin.elapsed().as_secs_f64().to_string());
        }
        if group.rank() == 0 {
            println!("{bytes} {}", seconds[1..].join(" "));
        }
    }
    Ok(())
}
