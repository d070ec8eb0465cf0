//! A loss that spag-train does not know: the squared distance of each sample's mean log-probability from its reward.

use std::path::Path;

use spag_model::{Model, ModelConfig};
use spag_train::loss::{Loss, LossInput, LossValue};
use spag_train::metrics::Metric;
use spag_train::{Learner, Span, TrainConfig, Trajectory};

const DISTANCE: Metric = Metric::mean("distance");

/// (ℓ − r)², averaged over the samples of a micro-batch.
struct Distance;

impl Loss for Distance {
    fn metrics(&self) -> &'static [Metric] {
        &[DISTANCE]
    }

    fn evaluate(&self, input: &LossInput) -> spag_train::Result<LossValue> {
        let distance = (input.log_probs() - input.rewards()?)?;
        // Automatic differentiation gives the gradient.
        Ok(LossValue { loss: distance.sqr()?.mean_all()?, metrics: vec![DISTANCE.of(distance.abs()?.mean_all()?)] })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tiny-llama");
    let model = Model::init(&ModelConfig::from_file(folder.join("config.json"))?, 1)?;
    let config = TrainConfig { learning_rate: 1e-2, ..TrainConfig::default() };
    let mut learner = Learner::new(&model, &config, 8)?.with_loss(Box::new(Distance));
    // The tokens from 1 on are learned, with −1 as reward.
    let ids = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let sample = Trajectory { row: 0, spans: vec![Span::new(1..ids.len(), -1.0)], ids };
    let losses = (0..8).map(|_| Ok(learner.step(std::slice::from_ref(&sample))?.loss));
    let losses: Vec<f64> = losses.collect::<spag_train::Result<_>>()?;
    println!("loss {:.3} → {:.3}", losses[0], losses[7]);
    assert!(losses[7] < losses[0] / 2.0, "{losses:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn loss_falls() {
        super::main().unwrap();
    }
}
