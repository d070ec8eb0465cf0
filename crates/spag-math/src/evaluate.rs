//! Values of expressions: exact where they are rational, else numbers near them.

use num_bigint::BigInt;
use num_complex::Complex64;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::expr::{Expr, Function};

/// Bits of a numerator and a denominator together.
const MOST_BITS: u64 = 20_000;
/// The largest number whose factorial is computed.
const MOST_FACTORS: u32 = 500;

/// The value of a rational expression; `None` if it is none, or too large.
pub(crate) fn exact(expr: &Expr) -> Option<BigRational> {
    let value = match expr {
        Expr::Number { value, .. } => value.clone(),
        Expr::Symbol(_) | Expr::Pi | Expr::Euler | Expr::Infinity => return None,
        Expr::Negative(a) => -exact(a)?,
        Expr::Sum(parts) => together(parts, BigRational::zero(), |sum, part| sum + part)?,
        Expr::Product(parts) => together(parts, BigRational::one(), |product, part| product * part)?,
        Expr::Quotient(a, b) => {
            let by = exact(b)?;
            if by.is_zero() {
                return None;
            }
            exact(a)? / by
        }
        Expr::Power(a, b) => power(&exact(a)?, &exact(b)?)?,
        Expr::InBase(a, _) => exact(a)?,
        Expr::Percent(a) => exact(a)? / BigRational::from_integer(100.into()),
        Expr::Binomial(n, k) => binomial(whole(n)?, whole(k)?)?,
        Expr::Call(Function::Abs, a) => exact(a)?.abs(),
        Expr::Call(Function::Floor, a) => exact(a)?.floor(),
        Expr::Call(Function::Ceil, a) => exact(a)?.ceil(),
        Expr::Call(Function::Factorial, a) => {
            BigRational::from_integer((1..=whole(a)?).map(BigInt::from).product::<BigInt>())
        }
        Expr::Call(..) => return None,
    };
    (bits(&value) <= MOST_BITS).then_some(value)
}

fn together(
    parts: &[Expr],
    first: BigRational,
    with: impl Fn(BigRational, BigRational) -> BigRational,
) -> Option<BigRational> {
    parts.iter().try_fold(first, |so_far, part| {
        let value = with(so_far, exact(part)?);
        (bits(&value) <= MOST_BITS).then_some(value)
    })
}

fn bits(value: &BigRational) -> u64 {
    value.numer().bits() + value.denom().bits()
}

fn whole(expr: &Expr) -> Option<u32> {
    let value = exact(expr)?;
    value.is_integer().then(|| value.to_integer().to_u32())?.filter(|n| *n <= MOST_FACTORS)
}

fn power(base: &BigRational, exponent: &BigRational) -> Option<BigRational> {
    let times = exponent.is_integer().then(|| exponent.to_integer().to_i32())??;
    let is_small = bits(base).saturating_mul(u64::from(times.unsigned_abs())) <= MOST_BITS;
    let is_defined = times >= 0 || !base.is_zero();
    (is_small && is_defined).then(|| base.pow(times))
}

fn binomial(n: u32, k: u32) -> Option<BigRational> {
    let mut value = BigRational::one();
    for i in 0..k {
        value *= BigRational::new((i64::from(n) - i64::from(i)).into(), (i64::from(i) + 1).into());
    }
    Some(value)
}

/// The value where the symbols have these values; `None` if there is none.
pub(crate) fn numeric(expr: &Expr, symbols: &[(&str, Complex64)]) -> Option<Complex64> {
    let of = |part: &Expr| numeric(part, symbols);
    let value = match expr {
        Expr::Number { value, .. } => Complex64::new(value.to_f64()?, 0.0),
        Expr::Binomial(..) | Expr::Call(Function::Factorial, _) => Complex64::new(exact(expr)?.to_f64()?, 0.0),
        Expr::Infinity => return None,
        Expr::Symbol(name) => symbols.iter().find(|(known, _)| known == name)?.1,
        Expr::Pi => Complex64::new(std::f64::consts::PI, 0.0),
        Expr::Euler => Complex64::new(std::f64::consts::E, 0.0),
        // Not -x, whose part of -0 would choose another root.
        Expr::Negative(a) => Complex64::zero() - of(a)?,
        Expr::Sum(parts) => parts.iter().map(of).sum::<Option<Complex64>>()?,
        Expr::Product(parts) => parts.iter().map(of).product::<Option<Complex64>>()?,
        Expr::Quotient(a, b) => of(a)? / of(b)?,
        Expr::Power(a, b) => {
            let (base, exponent) = (of(a)?, of(b)?);
            let power = match exponent.re.to_i32().filter(|n| f64::from(*n) == exponent.re && exponent.im == 0.0) {
                Some(times) => base.powi(times),
                None => base.powc(exponent),
            };
            // A power too small for its type is not 0.
            if power.is_zero() && !base.is_zero() {
                return None;
            }
            power
        }
        Expr::InBase(a, _) => of(a)?,
        Expr::Percent(a) => of(a)? / 100.0,
        Expr::Call(function, a) => call(*function, of(a)?)?,
    };
    finite(value)
}

/// The size that an expression has if nothing in its sums cancels out. Errors of its value are a part of it.
pub(crate) fn size(expr: &Expr, symbols: &[(&str, Complex64)]) -> f64 {
    let of = |part: &Expr| size(part, symbols);
    let value = |part: &Expr| numeric(part, symbols).map_or(0.0, Complex64::norm);
    match expr {
        Expr::Negative(a) | Expr::InBase(a, _) | Expr::Call(Function::Abs, a) => of(a),
        Expr::Sum(parts) => parts.iter().map(of).sum(),
        Expr::Product(parts) => parts.iter().map(of).product(),
        Expr::Quotient(a, b) => of(a) / value(b),
        Expr::Percent(a) => of(a) / 100.0,
        Expr::Power(a, b) => match numeric(b, symbols) {
            Some(exponent) if exponent.re > 0.0 => of(a).powf(exponent.re),
            _ => value(expr),
        },
        Expr::Call(Function::Sqrt, a) => of(a).sqrt(),
        Expr::Call(..) => value(expr).max(1.0),
        _ => value(expr),
    }
}

fn call(function: Function, x: Complex64) -> Option<Complex64> {
    let real = |value: f64| Some(Complex64::new(value, 0.0));
    Some(match function {
        Function::Abs => return real(x.norm()),
        Function::Floor => return real(x.re.floor()).filter(|_| x.im == 0.0),
        Function::Ceil => return real(x.re.ceil()).filter(|_| x.im == 0.0),
        Function::Factorial => return None,
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Ln => x.ln(),
        Function::Log => x.ln() / std::f64::consts::LN_10,
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => x.tan(),
        Function::Cot => x.tan().inv(),
        Function::Sec => x.cos().inv(),
        Function::Csc => x.sin().inv(),
        Function::Arcsin => x.asin(),
        Function::Arccos => x.acos(),
        Function::Arctan => x.atan(),
    })
}

fn finite(value: Complex64) -> Option<Complex64> {
    (value.re.is_finite() && value.im.is_finite()).then_some(value)
}
