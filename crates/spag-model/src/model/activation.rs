//! The activation of a gated MLP, as the architecture says.

use candle_core::{Result, Tensor};

use crate::config::Activation;
use spag_ops::{geglu, swiglu};

/// `gate` and `up` [N, F] → [N, F].
pub(super) fn forward(activation: Activation, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    match activation {
        Activation::SwiGlu => swiglu::forward(gate, up),
        Activation::GeGlu => geglu::forward(gate, up),
    }
}

/// Gate and up in adjacent columns [N, 2F] → [N, F].
pub(crate) fn forward_joined(activation: Activation, gate_up: &Tensor) -> Result<Tensor> {
    match activation {
        Activation::SwiGlu => swiglu::forward_joined(gate_up),
        Activation::GeGlu => geglu::forward_joined(gate_up),
    }
}

/// In place: `gate` and `up` become their gradients, and `dy` the output.
pub(super) fn backward(activation: Activation, gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    match activation {
        Activation::SwiGlu => swiglu::backward(gate, up, dy),
        Activation::GeGlu => geglu::backward(gate, up, dy),
    }
}
