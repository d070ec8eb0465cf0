//! Measures all-reduce on one rank. Start it with a launcher, once per rank.
//!
//! Arguments: the number of rounds, then buffer sizes in bytes. Rank 0 prints the seconds of every round, one line per
//! size.

use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use spag_dist::{JoinOptions, LaunchEnv, join};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers = std::env::args().skip(1).map(|text| text.parse());
    let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
    let Some((rounds, sizes)) = numbers.split_first() else {
        return Err("expected arguments: the number of rounds, then sizes in bytes".into());
    };
    let group = join(&LaunchEnv::detect()?, &JoinOptions::detect()?)?;
    for bytes in sizes {
        let buffer = Tensor::ones(bytes / 4, DType::F32, &Device::Cpu)?;
        let mut seconds = Vec::new();
        // One more round, to warm up memory and connections.
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
