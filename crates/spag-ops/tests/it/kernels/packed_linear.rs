use candle_core::{DType, Device, Tensor};
use spag_emulator::Place;
use spag_ops::packed_linear::{PackedWeight, forward, forward_f32};

use super::random::{PUTS, Random, close, tolerance};

#[test]
fn kernels_match_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(3);
    let (n, i) = (9, 48);
    let x = random.tensor(&[n, i]).unwrap();
    for outputs in [32, 64] {
        let weight = random.tensor(&[outputs, i]).unwrap();
        let packed = PackedWeight::new(&weight).unwrap();
        let residual = random.tensor(&[n, packed.outputs()]).unwrap();
        for dtype in [DType::F32, DType::BF16] {
            let here = |t| place.put(t, dtype).unwrap();
            let (hx, hweight, hresidual) = (here(&x), here(&weight), here(&residual));
            let there = place.run(|| PackedWeight::new(&hweight)).unwrap();
            assert_eq!((there.inputs(), there.outputs()), (packed.inputs(), packed.outputs()));
            let y = place.run(|| forward_f32(&hx, &there)).unwrap();
            assert_eq!(y.dtype(), DType::F32);
            close(&y, &forward(&x, &packed, None).unwrap(), tolerance(dtype), "y in f32");
            for around in [None, Some((&hresidual, &residual))] {
                let y = place.run(|| forward(&hx, &there, around.map(|a| a.0))).unwrap();
                close(&y, &forward(&x, &packed, around.map(|a| a.1)).unwrap(), tolerance(dtype), "y");
            }
        }
    }
}

/// Up to 8 rows of bf16: inputs that end within a step, single outputs and parts of a block, and views that are not aligned, which
/// another product multiplies.
#[test]
fn few_rows_are_those_of_the_cpu() {
    let place = &Place::of_this_build();
    let mut random = Random::new(4);
    for (outputs, inputs) in [(1, 8), (15, 64), (16, 72), (40, 520), (33, 1032)] {
        let weight = random.tensor(&[outputs, inputs]).unwrap();
        for rows in 1..=9 {
            let put = |t: &Tensor| PUTS[rows % 2](place, t, DType::BF16).unwrap();
            let (x, residual) = (random.tensor(&[rows, inputs]).unwrap(), random.tensor(&[rows, outputs]).unwrap());
            let there = place.run(|| PackedWeight::new(&put(&weight))).unwrap();
            let packed = PackedWeight::new(&weight).unwrap();
            let hx = place.put(&x, DType::BF16).unwrap();
            let what = format!("{rows} by [{outputs}, {inputs}]");
            let want = forward(&x, &packed, None).unwrap();
            close(&place.run(|| forward_f32(&hx, &there)).unwrap(), &want, tolerance(DType::F32), &what);
            close(&place.run(|| forward(&hx, &there, None)).unwrap(), &want, tolerance(DType::BF16), &what);
            // The sum is in the memory of the residual.
            let sum = place.put(&residual, DType::BF16).unwrap();
            place.run(|| forward(&hx, &there, Some(&sum))).unwrap();
            let want = forward(&x, &packed, Some(&residual)).unwrap();
            close(&sum, &want, tolerance(DType::BF16), &format!("{what} onto a residual"));
        }
    }
}

/// Bit by bit, at every place among 8 rows.
#[test]
fn few_rows_do_not_depend_on_the_others() {
    let place = &Place::of_this_build();
    let mut random = Random::new(5);
    let (outputs, inputs) = (21, 1000);
    let weight = place.put(&(random.tensor(&[outputs, inputs]).unwrap() / 3.0).unwrap(), DType::BF16).unwrap();
    let there = place.run(|| PackedWeight::new(&weight)).unwrap();
    let (x, residual) = (random.tensor(&[8, inputs]).unwrap(), random.tensor(&[8, outputs]).unwrap());
    let run = |first: usize, rows: usize| {
        let part = |tensor: &Tensor| {
            let part = tensor.narrow(0, first, rows).unwrap().force_contiguous().unwrap();
            place.put(&part, DType::BF16).unwrap()
        };
        let (x, residual) = (part(&x), part(&residual));
        // In f32 too, which shows more of the sums.
        let y = place.run(|| [forward_f32(&x, &there).unwrap(), forward(&x, &there, Some(&residual)).unwrap()]);
        let rows =
            y.map(|y| y.to_device(&Device::Cpu).unwrap().to_dtype(DType::F32).unwrap().to_vec2::<f32>().unwrap());
        let bits = |row: &Vec<f32>| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        rows.map(|rows| rows.iter().map(bits).collect::<Vec<_>>())
    };
    let all = run(0, 8);
    for (first, rows) in [(0, 1), (5, 1), (7, 1), (3, 2), (1, 7), (2, 4)] {
        let own = all.each_ref().map(|all| all[first..first + rows].to_vec());
        assert_eq!(run(first, rows), own, "{rows} rows from {first}");
    }
}
