//! Operations on numbers.

/// An operation on one number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unary {
    Copy,
    Exp,
    Log,
    Neg,
    Sqr,
    Sqrt,
    Recip,
    Abs,
    Tanh,
    Sin,
    Cos,
    Floor,
    Ceil,
    Round,
    Relu,
}

impl Unary {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "ucopy" => Self::Copy,
            "uexp" => Self::Exp,
            "ulog" => Self::Log,
            "uneg" => Self::Neg,
            "usqr" => Self::Sqr,
            "usqrt" => Self::Sqrt,
            "urecip" => Self::Recip,
            "uabs" => Self::Abs,
            "utanh" => Self::Tanh,
            "usin" => Self::Sin,
            "ucos" => Self::Cos,
            "ufloor" => Self::Floor,
            "uceil" => Self::Ceil,
            "uround" => Self::Round,
            "urelu" => Self::Relu,
            _ => return None,
        })
    }

    pub(super) fn of(self, x: f64) -> f64 {
        match self {
            Self::Copy => x,
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::Neg => -x,
            Self::Sqr => x * x,
            Self::Sqrt => x.sqrt(),
            Self::Recip => 1. / x,
            Self::Abs => x.abs(),
            Self::Tanh => x.tanh(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Round => x.round(),
            Self::Relu => x.max(0.),
        }
    }
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Minimum,
    Maximum,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Binary {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "badd" => Self::Add,
            "bsub" => Self::Sub,
            "bmul" => Self::Mul,
            "bdiv" => Self::Div,
            "bminimum" => Self::Minimum,
            "bmaximum" => Self::Maximum,
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "lt" => Self::Lt,
            "le" => Self::Le,
            "gt" => Self::Gt,
            "ge" => Self::Ge,
            _ => return None,
        })
    }

    /// Whether the result is a u8, 0 or 1.
    pub(super) fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }

    pub(super) fn of(self, x: f64, y: f64) -> f64 {
        let number = |holds: bool| if holds { 1. } else { 0. };
        match self {
            Self::Add => x + y,
            Self::Sub => x - y,
            Self::Mul => x * y,
            Self::Div => x / y,
            Self::Minimum => x.min(y),
            Self::Maximum => x.max(y),
            Self::Eq => number(x == y),
            Self::Ne => number(x != y),
            Self::Lt => number(x < y),
            Self::Le => number(x <= y),
            Self::Gt => number(x > y),
            Self::Ge => number(x >= y),
        }
    }
}

/// A reduction of several numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reduction {
    Sum,
    /// Of few numbers, for which candle has a kernel with other parameters.
    SmallSum,
    Min,
    Max,
    ArgMin,
    ArgMax,
}

impl Reduction {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "fast_sum" => Self::Sum,
            "fast_sum_small" => Self::SmallSum,
            "fast_min" => Self::Min,
            "fast_max" => Self::Max,
            "fast_argmin" => Self::ArgMin,
            "fast_argmax" => Self::ArgMax,
            _ => return None,
        })
    }

    /// Whether the result is an index.
    pub(super) fn is_position(self) -> bool {
        matches!(self, Self::ArgMin | Self::ArgMax)
    }

    /// The number of results, each of `each` numbers, given the kernel's first parameter.
    pub(super) fn outputs(self, count: usize, each: usize) -> usize {
        if matches!(self, Self::SmallSum) { count } else { count / each.max(1) }
    }

    /// Reduces `count` numbers.
    pub(super) fn of(self, count: usize, value: &dyn Fn(usize) -> Result<f64, String>) -> Result<f64, String> {
        let (mut sum, mut best, mut place) = (0., None, 0);
        for k in 0..count {
            let x = value(k)?;
            sum += x;
            let better = match (self, best) {
                (_, None) => true,
                (Self::Min | Self::ArgMin, Some(best)) => x < best,
                (_, Some(best)) => x > best,
            };
            if better {
                (best, place) = (Some(x), k);
            }
        }
        Ok(match self {
            Self::Sum | Self::SmallSum => sum,
            Self::Min | Self::Max => best.unwrap_or(f64::NAN),
            Self::ArgMin | Self::ArgMax => place as f64,
        })
    }
}
