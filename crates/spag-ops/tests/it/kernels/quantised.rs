//! Products with quantised weights, compared with products of the weights dequantised by the CPU.

use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::kernels::SumOrder;
use spag_ops::matmul;
use spag_ops::packed_linear::{PackedWeight, dequantise, forward, forward_f32};
use spag_ops::quantised::BlockFormat;

use super::random::{PUTS, Random, close};

/// Rounding relative to the largest element: of f32 sums (at most 4096 products below 1 in magnitude, with far smaller sums), or of
/// bf16 outputs (2⁻⁹).
const SUMS: f64 = 1e-5;
const ROUNDED: f64 = 4e-3;

/// A random weight: quantised on the place, and dequantised by the CPU from the same bits, in f32 and rounded to
/// `dtype`.
fn weights(place: &Place, format: BlockFormat, weight: &Tensor, dtype: DType) -> (PackedWeight, Tensor, Tensor) {
    let there = place.run(|| PackedWeight::quantised(weight, format, place.device())).unwrap();
    let here = PackedWeight::quantised(weight, format, &Device::Cpu).unwrap();
    let wide = Tensor::zeros(weight.dims(), DType::F32, &Device::Cpu).unwrap();
    dequantise(&here, &wide).unwrap();
    let rounded = wide.to_dtype(dtype).unwrap().to_dtype(DType::F32).unwrap();
    (there, wide, rounded)
}

#[test]
fn products_are_those_of_the_dequantised_weights() {
    let place = &Place::of_this_build();
    let mut random = Random::new(11);
    let sizes = [(1, 32), (37, 64), (5, 96), (70, 1056), (19, 4096)];
    for (outputs, inputs) in sizes {
        // Thirds, so that weights are rounded.
        let weight = (random.tensor(&[outputs, inputs]).unwrap() / 3.0).unwrap();
        for format in BlockFormat::ON_GPUS {
            for dtype in [DType::F32, DType::BF16] {
                let (there, exact, rounded) = weights(place, format, &weight, dtype);
                assert_eq!((there.inputs(), there.outputs()), (inputs, outputs));
                for rows in (0..=9).chain([15, 16, 17, 40]) {
                    // Few rows use the codes; more use weights in the format of the activations.
                    let w = if rows <= 16 { &exact } else { &rounded };
                    let (x, residual) =
                        (random.tensor(&[rows, inputs]).unwrap(), random.tensor(&[rows, outputs]).unwrap());
                    let put = PUTS[rows % 2];
                    let (hx, hresidual) = (put(place, &x, dtype).unwrap(), put(place, &residual, dtype).unwrap());
                    let tolerance = if dtype == DType::F32 { SUMS } else { ROUNDED };
                    let what = format!("{format} {dtype:?} {rows} by [{outputs}, {inputs}]");
                    let y = place.run(|| forward(&hx, &there, None, SumOrder::Any)).unwrap();
                    assert_eq!(y.dtype(), dtype);
                    let want = matmul::linear(&x, w).unwrap();
                    close(&y, &want, tolerance, &what);
                    let y = place.run(|| forward(&hx, &there, Some(&hresidual), SumOrder::Any)).unwrap();
                    let added = matmul::linear_add(&residual, &x, w).unwrap();
                    close(&y, &added, tolerance, &format!("{what} with a residual"));
                    let y = place.run(|| forward_f32(&hx, &there, SumOrder::Any)).unwrap();
                    assert_eq!(y.dtype(), DType::F32);
                    close(&y, &want, SUMS, &format!("{what} in f32"));
                }
            }
        }
    }
}

/// Reads the weights by multiplying rows of the identity: few rows use the codes, many the dequantised weights.
#[test]
fn weights_have_the_bits_of_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(12);
    let (outputs, inputs) = (9, 96);
    let weight = (random.tensor(&[outputs, inputs]).unwrap() / 7.0).unwrap();
    let identity = Tensor::eye(inputs, DType::F32, &Device::Cpu).unwrap();
    for format in BlockFormat::ON_GPUS {
        for dtype in [DType::F32, DType::BF16] {
            let (there, exact, rounded) = weights(place, format, &weight, dtype);
            for rows in [1, 2, 4, 8, 96] {
                let w = if rows <= 16 { &exact } else { &rounded };
                for first in (0..inputs).step_by(rows) {
                    let x = identity.narrow(0, first, rows).unwrap().force_contiguous().unwrap();
                    let x = place.put(&x, dtype).unwrap();
                    let y = place.run(|| forward_f32(&x, &there, SumOrder::Any)).unwrap();
                    let want = w.narrow(1, first, rows).unwrap().t().unwrap();
                    close(&y, &want, 0.0, &format!("{format} {dtype:?}, columns {first} of {rows}"));
                }
            }
        }
    }
}

/// Up to 16 rows, bit by bit: kernels for 1, 2, 4 and 8 rows and two groups of 8, and several splits of long rows.
#[test]
fn few_rows_do_not_depend_on_the_others() {
    let place = &Place::of_this_build();
    let mut random = Random::new(13);
    let (outputs, inputs) = (21, 4128);
    let weight = (random.tensor(&[outputs, inputs]).unwrap() / 3.0).unwrap();
    let (x, residual) = (random.tensor(&[16, inputs]).unwrap(), random.tensor(&[16, outputs]).unwrap());
    for format in BlockFormat::ON_GPUS {
        for dtype in [DType::F32, DType::BF16] {
            let there = place.run(|| PackedWeight::quantised(&weight, format, place.device())).unwrap();
            let run = |first: usize, rows: usize| {
                let part = |tensor: &Tensor| {
                    place.put(&tensor.narrow(0, first, rows).unwrap().force_contiguous().unwrap(), dtype)
                };
                let (x, residual) = (part(&x).unwrap(), part(&residual).unwrap());
                let y = place.run(|| forward(&x, &there, Some(&residual), SumOrder::Any)).unwrap();
                let y = y.to_device(&Device::Cpu).unwrap().to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap();
                y.concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
            };
            let all = run(0, 16);
            for (first, rows) in [(0, 1), (9, 1), (3, 2), (5, 3), (8, 4), (1, 7), (7, 9), (2, 13)] {
                let own = &all[first * outputs..(first + rows) * outputs];
                assert_eq!(run(first, rows), own, "{format} {dtype:?}: {rows} rows from {first}");
            }
        }
    }
}

#[test]
fn formats_and_shapes_that_do_not_fit_are_refused() {
    let place = &Place::of_this_build();
    let weight = Random::new(14).tensor(&[4, 64]).unwrap();
    let quantised = |weight: &Tensor, format| place.run(|| PackedWeight::quantised(weight, format, place.device()));
    for format in BlockFormat::ALL.into_iter().filter(|format| !BlockFormat::ON_GPUS.contains(format)) {
        assert!(quantised(&weight, format).is_err(), "{format}");
    }
    let odd = weight.reshape((64, 4)).unwrap();
    assert!(quantised(&odd, BlockFormat::Q8_0).is_err());
    let infinite = (&weight / 0.0).unwrap();
    let error = quantised(&infinite, BlockFormat::Q4_0).err().unwrap().to_string();
    assert!(error.contains("not finite"), "{error}");
    let there = quantised(&weight, BlockFormat::Q8_0).unwrap();
    let put =
        |shape: &[usize]| place.put(&Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap(), DType::F32).unwrap();
    place.run(|| {
        assert!(forward(&put(&[2, 32]), &there, None, SumOrder::Any).is_err());
        assert!(forward(&put(&[2, 64]), &there, Some(&put(&[2, 5])), SumOrder::Any).is_err());
        assert!(PackedWeight::stack(vec![there]).is_err());
    });
}
