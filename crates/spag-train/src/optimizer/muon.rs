//! Muon (Jordan et al. 2024): the momentum of a matrix, orthogonalised.

use candle_core::Tensor;
use spag_model::dtype::WeightDtype;
use spag_ops::cast::widened;

use super::{AdamW, Covers, Optimizer, StateBuffer, UpdateStep, UpdateUnit, Weights, replace};
use crate::error::Result;

/// Muon for the matrices of blocks, AdamW for all other parameters: embedding, head, norms and biases.
///
/// With M ← μM + (1−μ)G and the Nesterov step N = μM + (1−μ)G, a matrix of r rows and c columns moves by
/// η · 0.2·√max(r, c) · orthogonal(N) after it has decayed by 1 − ηλ. The factor gives updates the size of AdamW's, so that both
/// share a learning rate and a decay (Liu et al. 2025, section 2.2; torch's `match_rms_adamw`).
#[derive(Clone, Copy, Debug)]
pub struct Muon {
    /// μ.
    pub momentum: f64,
    /// For all other parameters. Its weight decay is that of matrices, too.
    pub others: AdamW,
}

/// Newton–Schulz steps.
const STEPS: usize = 5;
/// The quintic a·X + b·(XXᵀ)X + c·(XXᵀ)²X, whose iteration moves all singular values close to 1.
const QUINTIC: (f64, f64, f64) = (3.4445, -4.775, 2.0315);
/// Keeps the norm of a zero matrix above zero.
const EPSILON: f64 = 1e-7;

/// The first is the momentum of matrices, and the first moment of all other parameters.
const STATE: [StateBuffer; 2] = [
    StateBuffer::new("exp_avg"),
    StateBuffer { name: "exp_avg_sq", dtype: WeightDtype::F32, covers: Covers::AllButMatrices },
];

impl Muon {
    /// μ of the authors and of torch.
    pub const MOMENTUM: f64 = 0.95;
}

impl Optimizer for Muon {
    fn state(&self) -> &'static [StateBuffer] {
        &STATE
    }

    fn unit(&self) -> UpdateUnit {
        UpdateUnit::Matrices
    }

    fn update(&self, step: &UpdateStep, weights: Weights<'_>, gradient: &Tensor, buffers: &[Tensor]) -> Result<()> {
        let (Some((rows, columns)), Some(momentum)) = (step.matrix, buffers.first()) else {
            return self.others.update(step, weights, gradient, buffers);
        };
        let gradient = (widened(gradient)? * (step.gradient_scale * (1.0 - self.momentum)))?;
        momentum.slice_set(&((momentum * self.momentum)? + &gradient)?, 0, 0)?;
        let nesterov = ((momentum * self.momentum)? + gradient)?.reshape((rows, columns))?;
        let rate = step.learning_rate * 0.2 * (rows.max(columns) as f64).sqrt();
        let moved = (orthogonal(&nesterov)?.flatten_all()? * rate)?;
        let decay = if step.decay { self.others.weight_decay } else { 0.0 };
        replace(weights, |w| (w * (1.0 - step.learning_rate * decay))? - moved)
    }
}

/// An approximation of UVᵀ for the singular value decomposition USVᵀ of a matrix: singular values of about 0.7 to 1.2.
fn orthogonal(matrix: &Tensor) -> candle_core::Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    // The products of the shorter side are smaller.
    let wide = if rows > columns { matrix.t()?.contiguous()? } else { matrix.clone() };
    let norm = wide.sqr()?.sum_all()?.sqrt()?.to_scalar::<f32>()?;
    let mut x = (wide / (f64::from(norm) + EPSILON))?;
    let (a, b, c) = QUINTIC;
    for _ in 0..STEPS {
        let gram = x.matmul(&x.t()?)?;
        let factor = ((&gram * b)? + (gram.matmul(&gram)? * c)?)?;
        x = ((&x * a)? + factor.matmul(&x)?)?;
    }
    if rows > columns { x.t()?.contiguous() } else { Ok(x) }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// X of an orthogonal matrix is orthogonal again, up to the singular values that the quintic leaves.
    #[test]
    fn singular_values_move_close_to_one() {
        let values: Vec<f32> =
            (0..6 * 15).map(|i| ((i * 37 % 53) as f32 - 26.0) * if i < 15 { 40.0 } else { 1.0 }).collect();
        for shape in [(6, 15), (15, 6)] {
            let matrix = Tensor::from_slice(&values, shape, &Device::Cpu).unwrap();
            let x = orthogonal(&matrix).unwrap();
            assert_eq!(x.dims2().unwrap(), shape);
            let short = if shape.0 < shape.1 {
                x.matmul(&x.t().unwrap())
            } else {
                x.t().unwrap().contiguous().unwrap().matmul(&x)
            };
            let gram = short.unwrap().to_vec2::<f32>().unwrap();
            // The eigenvalues of the Gram matrix are squares of singular values; their sum is its trace.
            let trace: f32 = (0..6).map(|i| gram[i][i]).sum();
            assert!((6.0 * 0.45..6.0 * 1.5).contains(&trace), "{shape:?}: {trace}");
        }
    }
}
