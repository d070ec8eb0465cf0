//! An optimizer with its state on the host gives the same bits as on the device.

use candle_core::{Device, Tensor};
use spag_emulator::Place;
use spag_model::dtype::WeightDtype;
use spag_model::params::FlatBuffers;
use spag_model::{Model, ModelConfig};
use spag_ops::cast::widened;
use spag_train::optimizer::{self, OptimizerState};
use spag_train::{Optim, Placement, TrainConfig};

fn model() -> Model {
    let config: ModelConfig = serde_json::from_str(
        r#"{"hidden_size": 24, "intermediate_size": 40, "vocab_size": 50, "num_hidden_layers": 5,
            "num_attention_heads": 4, "max_position_embeddings": 64}"#,
    )
    .unwrap();
    Model::init(&config, 3).unwrap()
}

/// Gradients that differ between layers.
fn gradients(like: &FlatBuffers) -> FlatBuffers {
    let gradients = FlatBuffers::zeros(like.layout(), like.device()).unwrap();
    for (index, layer) in gradients.layers().iter().enumerate() {
        let values: Vec<f32> =
            (0..layer.elem_count()).map(|i| ((i * 31 + index * 7) % 101) as f32 / 50.0 - 1.0).collect();
        layer.slice_set(&Tensor::new(values, like.device()).unwrap(), 0, 0).unwrap();
    }
    gradients
}

/// AdamW with gradients in f32.
fn updated(device: &Device, dtype: WeightDtype, place: Placement) -> Vec<Vec<f32>> {
    updated_by(Optim::AdamW, device, dtype, place, WeightDtype::F32, gradients)
}

/// All parameters and the optimizer state after three updates on a device, with the state there or on the host.
fn updated_by(
    optim: Optim,
    device: &Device,
    dtype: WeightDtype,
    place: Placement,
    rounded_to: WeightDtype,
    gradients: fn(&FlatBuffers) -> FlatBuffers,
) -> Vec<Vec<f32>> {
    let parameters = model().to_dtype(dtype).unwrap().parameters().to_device(device).unwrap().deep_copy().unwrap();
    let (parameters, config) = (&parameters, TrainConfig { optim, weight_decay: 0.1, ..TrainConfig::default() });
    let gradients = gradients(parameters);
    let mut optimizer = OptimizerState::new(optimizer::build(&config), parameters, place, rounded_to).unwrap();
    for _ in 0..3 {
        optimizer.update(parameters.layers(), gradients.layers(), 1e-2, 0.5).unwrap();
    }
    let all = |layers: &[Tensor]| -> Vec<Vec<f32>> {
        layers.iter().map(|layer| widened(layer).unwrap().to_vec1().unwrap()).collect()
    };
    // f32 parameters have master weights only on the host; they are not compared.
    let moments = optimizer.buffers().filter(|(buffer, _)| buffer.name.starts_with("exp_avg"));
    all(parameters.layers()).into_iter().chain(moments.flat_map(|(_, buffers)| all(buffers))).collect()
}

#[test]
fn host_update_equals_device_update_bit_by_bit() {
    let place = Place::of_this_build();
    for dtype in [WeightDtype::F32, WeightDtype::Bf16] {
        let here = place.run(|| updated(place.device(), dtype, Placement::Device));
        let there = place.run(|| updated(place.device(), dtype, Placement::Host));
        same(&here, &there, &format!("{dtype}, on the host"));
        same(&here, &updated(&Device::Cpu, dtype, Placement::Device), &format!("{dtype}, the CPU's own"));
        assert_ne!(here[1], updated_zero_times(dtype), "{dtype}: nothing has moved");
    }
}

/// Gradients that are rounded to bf16 by hand.
fn rounded(like: &FlatBuffers) -> FlatBuffers {
    let gradients = gradients(like);
    for layer in gradients.layers() {
        let values = layer.to_vec1::<f32>().unwrap().into_iter().map(|x| half::bf16::from_f32(x).to_f32());
        let values: Vec<f32> = values.collect();
        layer.slice_set(&Tensor::new(values, like.device()).unwrap(), 0, 0).unwrap();
    }
    gradients
}

#[test]
fn kernels_update_by_gradients_that_are_rounded_to_bf16() {
    let place = Place::of_this_build();
    let (f32, bf16) = (WeightDtype::F32, WeightDtype::Bf16);
    for (optim, dtype) in [(Optim::AdamW, f32), (Optim::AdamW, bf16), (Optim::Sgd, f32), (Optim::Muon, bf16)] {
        let on = |device, kept, to, of| updated_by(optim, device, dtype, kept, to, of);
        let want = on(&Device::Cpu, Placement::Device, f32, rounded);
        same(&on(&Device::Cpu, Placement::Device, bf16, gradients), &want, &format!("{optim}, {dtype}, the CPU's own"));
        let there = place.run(|| on(place.device(), Placement::Host, bf16, gradients));
        same(&there, &want, &format!("{optim}, {dtype}, on the host"));
        if optim == Optim::AdamW {
            let here = place.run(|| on(place.device(), Placement::Device, bf16, gradients));
            same(&here, &want, &format!("{optim}, {dtype}, on the device"));
            assert!(here != on(&Device::Cpu, Placement::Device, f32, gradients), "nothing was rounded");
        }
    }
}

fn same(got: &[Vec<f32>], want: &[Vec<f32>], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (buffer, (got, want)) in got.iter().zip(want).enumerate() {
        let apart: Vec<usize> = (0..want.len()).filter(|i| got[*i].to_bits() != want[*i].to_bits()).collect();
        assert!(
            apart.is_empty(),
            "{what}: buffer {buffer} of {} differs at {:?}",
            want.len(),
            &apart[..apart.len().min(8)]
        );
    }
}

/// The first block before any update.
fn updated_zero_times(dtype: WeightDtype) -> Vec<f32> {
    let model = model().to_dtype(dtype).unwrap().to_dtype(WeightDtype::F32).unwrap();
    model.parameters().layers()[1].to_vec1().unwrap()
}
