//! Small symmetric matrices.

/// A square matrix of a few dozen rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    size: usize,
    values: Vec<f64>,
}

impl Matrix {
    pub(super) fn zero(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size] }
    }

    pub(super) fn get(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.size + column]
    }

    pub(super) fn add(&mut self, row: usize, column: usize, value: f64) {
        self.values[row * self.size + column] += value;
    }

    /// Solves A·x = `right` by Cholesky decomposition; `None` if an element of the diagonal is not positive.
    pub(super) fn solve(&self, right: &[f64]) -> Option<Vec<f64>> {
        let lower = self.cholesky()?;
        let mut x = right.to_vec();
        for row in 0..self.size {
            let known: f64 = (0..row).map(|column| lower.get(row, column) * x[column]).sum();
            x[row] = (x[row] - known) / lower.get(row, row);
        }
        for row in (0..self.size).rev() {
            let known: f64 = (row + 1..self.size).map(|below| lower.get(below, row) * x[below]).sum();
            x[row] = (x[row] - known) / lower.get(row, row);
        }
        Some(x)
    }

    /// The lower triangle L with L·Lᵀ = A. Pivots are at least the rounding error of their diagonal element.
    fn cholesky(&self) -> Option<Self> {
        let mut lower = Self::zero(self.size);
        for row in 0..self.size {
            for column in 0..=row {
                let known: f64 = (0..column).map(|k| lower.get(row, k) * lower.get(column, k)).sum();
                let (whole, rest) = (self.get(row, column), self.get(row, column) - known);
                let value = if row != column {
                    rest / lower.get(column, column)
                } else if whole > 0.0 {
                    rest.max(whole * f64::EPSILON).sqrt()
                } else {
                    return None;
                };
                lower.add(row, column, value);
            }
        }
        Some(lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solve_inverts_and_refuses_a_singular_matrix() {
        let mut matrix = Matrix::zero(3);
        for (at, value) in [4.0, 2.0, 0.0, 2.0, 5.0, 1.0, 0.0, 1.0, 3.0].into_iter().enumerate() {
            matrix.add(at / 3, at % 3, value);
        }
        let solved = matrix.solve(&[10.0, 19.0, 14.0]).unwrap();
        let back: Vec<f64> = (0..3).map(|row| (0..3).map(|k| matrix.get(row, k) * solved[k]).sum()).collect();
        assert!(back.iter().zip([10.0, 19.0, 14.0]).all(|(a, b): (&f64, f64)| (a - b).abs() < 1e-12), "{back:?}");
        assert_eq!(Matrix::zero(2).solve(&[1.0, 1.0]), None);
    }
}
