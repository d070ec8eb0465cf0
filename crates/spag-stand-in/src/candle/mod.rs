//! Reimplements the candle kernels that this project's programs launch, with the same parameters and results.
//!
//! Numbers are read as f64, computed, and rounded to their type: for sums, products, quotients and square roots of f32, that
//! is bit-identical to computing in f32.

mod element;
mod operations;

use std::sync::Arc;

use crate::fault::fault;
use crate::kernel::Parameters;
use crate::machine::Machine;
use crate::order::Use;
use crate::work::{Access, Run};
use element::{Element, View};
use operations::{Binary, Reduction, Unary};

/// A kernel of candle.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    name: String,
    operation: Operation,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Copy2d(Element),
    ConstSet(Element),
    Unary(Unary, Element),
    Affine(Element),
    Power(Element),
    Binary(Binary, Element),
    Cast(Element, Element),
    Reduce(Reduction, Element),
    /// With indices of the first type.
    IndexSelect(Element, Element),
    IndexAdd(Element, Element),
    /// With conditions of the first type.
    Where(Element, Element),
}

/// Memory used by a launch, collected as accesses.
struct Memory<'a> {
    machine: &'a Machine,
    what: &'a str,
    accesses: Vec<Access>,
}

impl Memory<'_> {
    /// The numbers at an address; `None` for address 0.
    fn view(&mut self, address: u64, element: Element, how: Use) -> Option<View> {
        if address == 0 {
            return None;
        }
        let region = self.machine.memory.region(address, None, self.what);
        let view = View::new(&region, element);
        self.accesses.push(Access { region, how });
        Some(view)
    }

    fn input(&mut self, address: u64, element: Element) -> Option<View> {
        self.view(address, element, Use::Read)
    }

    fn output(&mut self, address: u64, element: Element) -> Option<View> {
        self.view(address, element, Use::Write)
    }
}

/// The dimensions and strides of a launch; without any, everything is contiguous.
struct Layout {
    info: Option<View>,
    rank: usize,
}

impl Layout {
    /// The position of element `i` in operand `operand`, by its strides.
    fn position(&self, i: usize, operand: usize) -> Result<usize, String> {
        let Some(info) = &self.info else { return Ok(i) };
        let (mut rest, mut at) = (i, 0);
        for d in (0..self.rank).rev() {
            let size = info.get(d)? as usize;
            at += rest % size.max(1) * info.get((1 + operand) * self.rank + d)? as usize;
            rest /= size.max(1);
        }
        Ok(at)
    }
}

impl Kernel {
    /// Looks up a kernel by a name such as `badd_f32`.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let (base, elements) = element::split(name)?;
        let operation = match (base, &elements[..]) {
            ("copy2d", [e]) => Operation::Copy2d(*e),
            ("const_set", [e]) => Operation::ConstSet(*e),
            ("affine", [e]) => Operation::Affine(*e),
            ("upowf", [e]) => Operation::Power(*e),
            ("is", [ids, e]) => Operation::IndexSelect(*ids, *e),
            ("ia", [ids, e]) => Operation::IndexAdd(*ids, *e),
            ("where", [ids, e]) => Operation::Where(*ids, *e),
            ("cast", [from, to]) => Operation::Cast(*from, *to),
            (base, [e]) => Unary::find(base)
                .map(|unary| Operation::Unary(unary, *e))
                .or_else(|| Binary::find(base).map(|binary| Operation::Binary(binary, *e)))
                .or_else(|| Reduction::find(base).map(|reduction| Operation::Reduce(reduction, *e)))?,
            _ => return None,
        };
        Some(Self { name: name.to_owned(), operation })
    }

    /// The work of a launch, and the memory that it uses.
    pub(crate) fn work(&self, machine: &Machine, p: Parameters) -> (Run, Vec<Access>) {
        let mut memory = Memory { machine, what: &self.name, accesses: Vec::new() };
        let run = self.operation.run(&mut memory, p);
        (run, memory.accesses)
    }
}

const MISSING: &str = "an output or an input is null";

impl Operation {
    fn run(self, memory: &mut Memory<'_>, p: Parameters) -> Run {
        match self {
            Self::Copy2d(e) => {
                let (from, to) = (memory.input(p.u64(0), e), memory.output(p.u64(1), e));
                let [rows, columns, from_row, to_row] = [2, 3, 4, 5].map(|i| p.u32(i) as usize);
                Arc::new(move || {
                    let (from, to) = (from.as_ref().ok_or(MISSING)?, to.as_ref().ok_or(MISSING)?);
                    for row in 0..rows {
                        for column in 0..columns {
                            to.set(row * to_row + column, from.get(row * from_row + column)?)?;
                        }
                    }
                    Ok(())
                })
            }
            Self::Reduce(reduction, e) => {
                let (count, each, layout) = (p.u64(0) as usize, p.u64(1) as usize, layout(memory, p, 2));
                let out = if reduction.is_position() { Element::U32 } else { e };
                let (from, to) = (memory.input(p.u64(4), e), memory.output(p.u64(5), out));
                Arc::new(move || {
                    let (from, to) = (from.as_ref().ok_or(MISSING)?, to.as_ref().ok_or(MISSING)?);
                    for i in 0..reduction.outputs(count, each) {
                        let value = |k: usize| from.get(layout.position(i * each + k, 0)?);
                        to.set(i, reduction.of(each, &value)?)?;
                    }
                    Ok(())
                })
            }
            // The source is contiguous; parameters 1 and 2 are the layout of the indices, which is contiguous too.
            Self::IndexSelect(ids, e) => {
                let (ids, from, to) =
                    (memory.input(p.u64(3), ids), memory.input(p.u64(4), e), memory.output(p.u64(5), e));
                let [left, size, count, right] = [6, 7, 8, 9].map(|i| p.u64(i) as usize);
                Arc::new(move || {
                    let (from, to) = (from.as_ref().ok_or(MISSING)?, to.as_ref().ok_or(MISSING)?);
                    for (i, [l, k, r]) in indices([left, count, right]).enumerate() {
                        let id = index(ids.as_ref().ok_or(MISSING)?, k, size)?;
                        to.set(i, from.get((l * size + id) * right + r)?)?;
                    }
                    Ok(())
                })
            }
            Self::IndexAdd(ids, e) => {
                let (ids, count) = (memory.input(p.u64(0), ids), p.u64(1) as usize);
                let (from, to) = (memory.input(p.u64(2), e), memory.output(p.u64(3), e));
                let [left, _, size, right] = [4, 5, 6, 7].map(|i| p.u64(i) as usize);
                Arc::new(move || {
                    let (from, to) = (from.as_ref().ok_or(MISSING)?, to.as_ref().ok_or(MISSING)?);
                    for (i, [l, k, r]) in indices([left, count, right]).enumerate() {
                        let at = (l * size + index(ids.as_ref().ok_or(MISSING)?, k, size)?) * right + r;
                        to.set(at, to.get(at)? + from.get(i)?)?;
                    }
                    Ok(())
                })
            }
            elementwise => elementwise.run_elementwise(memory, p),
        }
    }

    /// Operations with one output element for each of the `numel` elements of their inputs.
    fn run_elementwise(self, memory: &mut Memory<'_>, p: Parameters) -> Run {
        let (count, layout) = (p.u64(0) as usize, layout(memory, p, 1));
        let number = |e: Element, i: usize| e.number_in(&p.bytes::<8>(i));
        type Compute = Box<dyn Fn([f64; 3]) -> f64 + Send + Sync>;
        let (inputs, output, compute): (Vec<Option<View>>, Option<View>, Compute) = match self {
            Self::ConstSet(e) => {
                let value = number(e, 3);
                (vec![], memory.output(p.u64(4), e), Box::new(move |_| value))
            }
            Self::Unary(unary, e) => {
                (vec![memory.input(p.u64(3), e)], memory.output(p.u64(4), e), Box::new(move |[x, ..]| unary.of(x)))
            }
            Self::Affine(e) => {
                let (scale, shift) = (number(e, 5), number(e, 6));
                let inputs = vec![memory.input(p.u64(3), e)];
                (inputs, memory.output(p.u64(4), e), Box::new(move |[x, ..]| x * scale + shift))
            }
            Self::Power(e) => {
                let exponent = number(e, 3);
                let inputs = vec![memory.input(p.u64(4), e)];
                (inputs, memory.output(p.u64(5), e), Box::new(move |[x, ..]| x.powf(exponent)))
            }
            Self::Cast(from, to) => {
                (vec![memory.input(p.u64(3), from)], memory.output(p.u64(4), to), Box::new(|[x, ..]| x))
            }
            Self::Binary(binary, e) => {
                let inputs = vec![memory.input(p.u64(3), e), memory.input(p.u64(4), e)];
                let out = if binary.is_comparison() { Element::U8 } else { e };
                (inputs, memory.output(p.u64(5), out), Box::new(move |[x, y, _]| binary.of(x, y)))
            }
            Self::Where(ids, e) => {
                let inputs = vec![memory.input(p.u64(3), ids), memory.input(p.u64(4), e), memory.input(p.u64(5), e)];
                let choose = |[holds, yes, no]: [f64; 3]| if holds != 0. { yes } else { no };
                (inputs, memory.output(p.u64(6), e), Box::new(choose))
            }
            Self::Copy2d(_) | Self::Reduce(..) | Self::IndexSelect(..) | Self::IndexAdd(..) => {
                fault!("{self:?} is not elementwise")
            }
        };
        let sets = matches!(self, Self::ConstSet(_));
        Arc::new(move || {
            let to = output.as_ref().ok_or(MISSING)?;
            for i in 0..count {
                let mut x = [0.; 3];
                for (operand, (x, view)) in x.iter_mut().zip(&inputs).enumerate() {
                    *x = match view {
                        Some(view) => view.get(layout.position(i, operand)?)?,
                        // Without an input, the output is modified in place.
                        None => to.get(i)?,
                    };
                }
                to.set(if sets { layout.position(i, 0)? } else { i }, compute(x))?;
            }
            Ok(())
        })
    }
}

/// The layout whose rank and address are parameters `at` and `at + 1`.
fn layout(memory: &mut Memory<'_>, p: Parameters, at: usize) -> Layout {
    Layout { rank: p.u64(at) as usize, info: memory.input(p.u64(at + 1), Element::I64) }
}

/// All indices of three dimensions, in order.
fn indices([a, b, c]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).map(move |k| [i, j, k])))
}

/// Index `k`, checked to be below `size`.
fn index(ids: &View, k: usize, size: usize) -> Result<usize, String> {
    let id = ids.get(k)? as usize;
    if id < size { Ok(id) } else { Err(format!("index {id} of {size}")) }
}
