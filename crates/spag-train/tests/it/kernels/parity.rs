//! The losses and gradient norms of the reference implementation, which computes in f32 and logs losses with four decimals.

use spag_emulator::Place;
use spag_io::Silent;
use spag_model::Checkpoint;
use spag_model::dtype::WeightDtype;
use spag_train::{Error, Observer, Packing, Record, Result, train_samples};

use crate::training_fixture::{Case, cases_on};

/// Records the first steps of a run, then stops it.
struct First {
    records: Vec<Record>,
    steps: usize,
}

impl Observer for First {
    fn record(&mut self, record: &Record) -> Result<()> {
        self.records.push(record.clone());
        if self.records.len() < self.steps {
            return Ok(());
        }
        // An error is the only way to stop a run early.
        Err(Error::Setting { name: "max_steps", reason: "enough for a comparison".into() })
    }
}

/// Where the first `steps` losses, and the norms relative to themselves, are farthest from the reference's.
fn farthest(place: &Place, case: &Case, steps: usize) -> (f64, f64) {
    let mut first = First { records: Vec::new(), steps };
    let ended = place.run(|| {
        let Checkpoint { model, tokenizer } = &case.checkpoint;
        train_samples(model, tokenizer, &case.samples, Some(&case.reference), &case.config, &mut first, &mut Silent)
    });
    assert_eq!(first.records.len(), steps, "{ended:?}");
    let apart = first
        .records
        .iter()
        .zip(&case.expected.curve)
        .map(|(got, want)| ((got.loss - want.loss).abs(), (got.grad_norm / want.grad_norm - 1.0).abs()));
    let farthest = apart.fold((0f64, 0f64), |most, apart| (most.0.max(apart.0), most.1.max(apart.1)));
    println!("{}: losses within {:.1e}, gradient norms within {:.1e} of themselves", case.name, farthest.0, farthest.1);
    farthest
}

/// Few steps in the emulator, where one takes ten seconds; with trees those of one case.
#[test]
fn f32_training_matches_the_reference() {
    let place = Place::of_this_build();
    for (mut case, emulated) in cases_on(place.device(), WeightDtype::F32).into_iter().zip([1, 2]) {
        case.config.packing = (emulated == 2).then_some(Packing::Tree);
        let steps = if place.is_emulated() { emulated } else { case.expected.curve.len() };
        let (loss, norm) = farthest(&place, &case, steps);
        assert!(loss <= 1e-4 && norm <= 1e-4, "{}: {loss:.1e}, {norm:.1e}", case.name);
    }
}

/// Tolerances: the effect of rounding activations and weights to 8 bits.
#[test]
fn bf16_training_is_near_the_reference() {
    let place = Place::of_this_build();
    let cases = cases_on(place.device(), WeightDtype::Bf16);
    let (cases, steps) =
        if place.is_emulated() { (&cases[1..], 1) } else { (&cases[..], cases[0].expected.curve.len()) };
    for case in cases {
        let (loss, norm) = farthest(&place, case, steps);
        assert!(loss <= 0.1 && norm <= 4e-2, "{}: {loss:.1e}, {norm:.1e}", case.name);
    }
}
