//! Scalar reference of the bf16 instructions' arithmetic, as defined by the processor manuals.

use half::bf16;

/// Flushes denormals to zero, for inputs and outputs.
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// sum + a·b in one rounding, to nearest even.
fn multiply_add(a: bf16, b: bf16, sum: f32) -> f32 {
    flush(flush(a.to_f32()).mul_add(flush(b.to_f32()), flush(sum)))
}

/// An element of `VDPBF16PS`: the odd elements first.
pub(super) fn dot(sum: f32, a: [bf16; 2], b: [bf16; 2]) -> f32 {
    multiply_add(a[0], b[0], multiply_add(a[1], b[1], sum))
}

/// An element of `TDPBF16PS`: even and odd elements are summed separately, and both sums are added to the element
/// together.
pub(super) fn tile_dot(sum: f32, a: &[[bf16; 2]], b: &[[bf16; 2]]) -> f32 {
    let parts = a
        .iter()
        .zip(b)
        .fold([0f32; 2], |[even, odd], (a, b)| [multiply_add(a[0], b[0], even), multiply_add(a[1], b[1], odd)]);
    flush(flush(sum) + flush(parts[0] + parts[1]))
}
