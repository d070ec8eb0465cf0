//! bf16 products for training, compared with packed weights and with f64.

use proptest::prelude::*;

use super::bf16_gemv::narrow;
use super::{random, side, stored};
use crate::product::{Bf16Panels, CpuPath, RightOperand, Side, Start, Values, bf16_gemm};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every operand order is bit-identical to a product with packed weights.
    #[test]
    fn all_orders_give_the_bits_of_packed_weights(
        m in prop_oneof![0usize..8, 12usize..20, 100usize..140],
        k in prop_oneof![0usize..70, 500usize..600],
        n in prop_oneof![0usize..80, Just(64), Just(128), 120usize..140],
        a_side in side(),
        seed in 0u64..1000,
    ) {
        let (a, b, base) = (random(m * k, seed), random(k * n, seed + 1), random(m * n, seed + 2));
        let columns_of_b = narrow(stored(&b, (k, n), Side::Columns));
        let left = stored(&a, (m, k), a_side);
        let (narrow_left, narrow_b) = (narrow(left.clone()), narrow(b.clone()));
        let lefts = [Values::F32(&left), Values::Bf16(&narrow_left)];
        let rights = [Values::F32(&b), Values::Bf16(&narrow_b)].map(RightOperand::Rows);
        let rights = [rights[0], rights[1], RightOperand::Columns(&columns_of_b)];
        for path in [CpuPath::Avx512Bf16, CpuPath::Amx] {
            if !super::can_run(path) {
                eprintln!("{path}: not tested");
                continue;
            }
            let panels = Bf16Panels::pack(path, (n, k), &columns_of_b);
            for start in [Start::Zero, Start::Output, Start::Of(&base)] {
                let mut want = base.clone();
                panels.product(m, &a, &mut want, start);
                for (left, right) in lefts.iter().flat_map(|left| rights.map(|right| (*left, right))) {
                    let mut got = if start == Start::Output { base.clone() } else { vec![f32::NAN; m * n] };
                    bf16_gemm::product(path, (m, k, n), (left, a_side), right, &mut got, start);
                    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                        let what = format!("{path}, element {at} of {m}×{k}×{n}, a in {a_side:?}");
                        assert_eq!(got.to_bits(), want.to_bits(), "{what}");
                    }
                }
            }
        }
    }
}
