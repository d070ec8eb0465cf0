//! Interprets the few pickle opcodes that describe a dictionary of tensors. No code is ever executed: names are looked
//! up in a short list, and calls are limited to four that build tensors and dictionaries.
//!
//! Objects are indices into lists, not trees, so nothing recurses, and memory is proportional to the file's length.

use spag_io::quote;

/// Maximum opcodes. A tensor takes about forty.
const MAX_STEPS: usize = 1 << 20;
/// Maximum dimensions of a tensor.
const MAX_RANK: usize = 8;

type Result<T> = std::result::Result<T, String>;

/// A tensor as described by the pickle, unvalidated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PickledTensor<'a> {
    pub(super) storage: Storage<'a>,
    /// Index of its first element in the storage.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
    /// PyTorch's name of its number format, if it differs from that of the storage.
    pub(super) dtype: Option<&'a str>,
}

/// A storage that tensors are views of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Storage<'a> {
    /// PyTorch's name of its type, e.g. `HalfStorage`.
    pub(super) kind: &'a str,
    /// Name of its entry in the archive.
    pub(super) key: &'a str,
    /// Number of elements.
    pub(super) len: u64,
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    /// A value whose content does not matter: the name of its kind.
    Other(&'static str),
    Int(i64),
    Text(&'a str),
    /// A name in a module.
    Global(&'a str, &'a str),
    /// Index into the lists of [`Machine`].
    Tuple(usize),
    Dictionary(usize),
    Storage(Storage<'a>),
    Tensor(usize),
}

impl Value<'_> {
    fn kind(self) -> &'static str {
        match self {
            Self::Other(kind) => kind,
            Self::Int(_) => "an int",
            Self::Text(_) => "a text",
            Self::Global(..) => "a class or function",
            Self::Tuple(_) => "a tuple",
            Self::Dictionary(_) => "a dictionary",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
        }
    }
}

/// Reads the pickle of a state dict: names and tensors, in their order.
pub(super) fn state_dict(pickle: &[u8]) -> Result<Vec<(&str, PickledTensor<'_>)>> {
    let mut machine = Machine { input: pickle, ..Machine::default() };
    let root = machine.run().map_err(|reason| match machine.key() {
        Some(key) => format!("tensor `{}`: {reason}", quote(key)),
        None => reason,
    })?;
    let Value::Dictionary(root) = root else {
        return Err(format!("it holds {}, not a dictionary of tensors; {SAVE}", root.kind()));
    };
    let items = machine.dictionaries.get_mut(root).map(std::mem::take).unwrap_or_default();
    let mut tensors = Vec::new();
    for (key, value) in items {
        match (key, value) {
            (Value::Text(name), Value::Tensor(index)) => {
                tensors.push((name, machine.tensors.get(index).cloned().ok_or_else(damaged)?));
            }
            (Value::Text(name), other) => {
                return Err(format!("`{}` is {}, not a tensor; {SAVE}", quote(name), other.kind()));
            }
            (other, _) => return Err(format!("the name of a tensor is {}; {SAVE}", other.kind())),
        }
    }
    Ok(tensors)
}

const SAVE: &str = "save model.state_dict() alone";

#[derive(Default)]
struct Machine<'a> {
    input: &'a [u8],
    stack: Vec<Value<'a>>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: std::collections::HashMap<u32, Value<'a>>,
    tuples: Vec<Vec<Value<'a>>>,
    dictionaries: Vec<Vec<(Value<'a>, Value<'a>)>>,
    tensors: Vec<PickledTensor<'a>>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Value<'a>> {
        for _ in 0..MAX_STEPS {
            let op = self.byte()?;
            if op == b'.' {
                return self.pop();
            }
            self.step(op)?;
        }
        Err(format!("its pickle has more than {MAX_STEPS} opcodes; {SAVE}"))
    }

    fn step(&mut self, op: u8) -> Result<()> {
        match op {
            // Protocol, and frames, which matter only for streaming.
            0x80 => self.skip(1),
            0x95 => self.skip(8),
            b'N' => self.push(Value::Other("None")),
            0x88 | 0x89 => self.push(Value::Other("a bool")),
            b'G' => {
                self.skip(8)?;
                self.push(Value::Other("a float"))
            }
            b'K' | b'M' => {
                let value = self.number(if op == b'K' { 1 } else { 2 })?;
                self.push(Value::Int(value as i64))
            }
            b'J' => {
                let value = self.number(4)? as u32;
                self.push(Value::Int(i64::from(value.cast_signed())))
            }
            0x8a => {
                let length = usize::from(self.byte()?);
                self.long(length)
            }
            0x8c | b'X' => {
                let length = self.number(if op == b'X' { 4 } else { 1 })?;
                let text = text(self.take(length as usize)?)?;
                self.push(Value::Text(text))
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(module, name)
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => self.global(module, name),
                _ => Err(damaged()),
            },
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b')' => self.tuple(Vec::new()),
            0x85..=0x87 => {
                let at = self.stack.len().checked_sub(usize::from(op - 0x84)).ok_or_else(damaged)?;
                if self.marks.last().is_some_and(|mark| *mark > at) {
                    return Err(damaged());
                }
                let items = self.stack.split_off(at);
                self.tuple(items)
            }
            b't' => {
                let items = self.pop_to_mark()?;
                self.tuple(items)
            }
            b'}' => self.dictionary(),
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(&[key, value])
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.set_items(&items)
            }
            b'q' | b'r' => {
                let slot = self.number(if op == b'q' { 1 } else { 4 })? as u32;
                self.memoize(slot)
            }
            0x94 => self.memoize(self.memo.len() as u32),
            b'h' | b'j' => {
                let slot = self.number(if op == b'h' { 1 } else { 4 })? as u32;
                let value = *self.memo.get(&slot).ok_or_else(damaged)?;
                self.push(value)
            }
            b'Q' => self.storage(),
            b'R' => self.reduce(),
            // Attributes of a dictionary: module versions.
            b'b' => match (self.pop()?, self.stack.last()) {
                (Value::Dictionary(_), Some(Value::Dictionary(_))) => Ok(()),
                (_, Some(object)) => Err(format!("it sets attributes of {}; {SAVE}", object.kind())),
                _ => Err(damaged()),
            },
            other => Err(format!("pickle opcode {other:#04x} does not occur in a dictionary of tensors; {SAVE}")),
        }
    }

    // ── Input ──

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.input.split_at_checked(length).ok_or("its pickle ends too early")?;
        self.input = rest;
        Ok(taken)
    }

    fn skip(&mut self, length: usize) -> Result<()> {
        self.take(length).map(|_| ())
    }

    fn byte(&mut self) -> Result<u8> {
        self.number(1).map(|number| number as u8)
    }

    /// A little-endian number of at most 8 bytes.
    fn number(&mut self, length: usize) -> Result<u64> {
        Ok(self.take(length)?.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn line(&mut self) -> Result<&'a str> {
        let end = self.input.iter().position(|byte| *byte == b'\n').ok_or("its pickle ends too early")?;
        let line = text(self.take(end)?)?;
        self.skip(1)?;
        Ok(line)
    }

    // ── Stack ──

    fn push(&mut self, value: Value<'a>) -> Result<()> {
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value<'a>> {
        if self.marks.last() == Some(&self.stack.len()) {
            return Err(damaged());
        }
        self.stack.pop().ok_or_else(damaged)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let mark = self.marks.pop().ok_or_else(damaged)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn tuple(&mut self, items: Vec<Value<'a>>) -> Result<()> {
        self.tuples.push(items);
        self.push(Value::Tuple(self.tuples.len() - 1))
    }

    fn dictionary(&mut self) -> Result<()> {
        self.dictionaries.push(Vec::new());
        self.push(Value::Dictionary(self.dictionaries.len() - 1))
    }

    fn set_items(&mut self, items: &[Value<'a>]) -> Result<()> {
        let (pairs, []) = items.as_chunks::<2>() else { return Err(damaged()) };
        let Some(Value::Dictionary(index)) = self.stack.last() else { return Err(damaged()) };
        let dictionary = self.dictionaries.get_mut(*index).ok_or_else(damaged)?;
        dictionary.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(())
    }

    fn memoize(&mut self, slot: u32) -> Result<()> {
        let top = *self.stack.last().ok_or_else(damaged)?;
        self.memo.insert(slot, top);
        Ok(())
    }

    /// A signed number of `length` bytes.
    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        let (low, high) = bytes.split_at(bytes.len().min(8));
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide[..low.len()].copy_from_slice(low);
        let value = i64::from_le_bytes(wide);
        if value.is_negative() != negative || high.iter().any(|byte| *byte != if negative { 0xff } else { 0 }) {
            return Err("a number has more than 64 bits".into());
        }
        self.push(Value::Int(value))
    }

    /// The key of the outermost dictionary whose value is being read. Pickles set a single item without a mark.
    fn key(&self) -> Option<&'a str> {
        let mut start = 0;
        for end in self.marks.iter().copied().chain([self.stack.len()]).take(2) {
            let texts = self.stack.get(start..end)?.iter().rev();
            let key = texts.filter_map(|value| if let Value::Text(text) = value { Some(*text) } else { None }).next();
            if key.is_some() {
                return key;
            }
            start = end;
        }
        None
    }

    // ── Tensors ──

    fn global(&mut self, module: &'a str, name: &'a str) -> Result<()> {
        match module {
            "torch" | "torch.storage" | "torch._utils" | "collections" => self.push(Value::Global(module, name)),
            _ => Err(unknown(module, name)),
        }
    }

    /// The storage of a persistent id: ("storage", type, key, device, length), and perhaps None.
    fn storage(&mut self) -> Result<()> {
        let Value::Tuple(id) = self.pop()? else { return Err(damaged()) };
        let id = match self.tuples.get(id).map_or(&[][..], Vec::as_slice) {
            [id @ .., Value::Other("None")] => id,
            id => id,
        };
        match id {
            [Value::Text("storage"), Value::Global(_, kind), Value::Text(key), Value::Text(_), Value::Int(len)] => {
                let len = u64::try_from(*len).map_err(|_| damaged())?;
                self.push(Value::Storage(Storage { kind, key, len }))
            }
            _ => Err("a persistent id is not that of a storage".into()),
        }
    }

    fn reduce(&mut self) -> Result<()> {
        let Value::Tuple(arguments) = self.pop()? else { return Err(damaged()) };
        let Value::Global(module, name) = self.pop()? else { return Err(damaged()) };
        let arguments = self.tuples.get(arguments).ok_or_else(damaged)?;
        let (storage, offset, shape, strides, dtype) = match (module, name, arguments.as_slice()) {
            ("collections", "OrderedDict", []) => return self.dictionary(),
            // requires_grad and hooks follow.
            ("torch._utils", "_rebuild_parameter", [tensor @ Value::Tensor(_), ..]) => return self.push(*tensor),
            ("torch._utils", "_rebuild_tensor_v2", [storage, offset, shape, strides, ..]) => {
                (storage, offset, shape, strides, None)
            }
            // For number formats without a storage type.
            (
                "torch._utils",
                "_rebuild_tensor_v3",
                [storage, offset, shape, strides, _, _, Value::Global("torch", dtype), ..],
            ) => (storage, offset, shape, strides, Some(*dtype)),
            ("torch._utils" | "collections", "_rebuild_tensor_v2" | "_rebuild_tensor_v3" | "OrderedDict", _) => {
                return Err(format!("`{module}.{name}` is called with unknown arguments"));
            }
            _ => return Err(unknown(module, name)),
        };
        let (Value::Storage(storage), Value::Int(offset)) = (*storage, *offset) else { return Err(damaged()) };
        let tensor = PickledTensor {
            storage,
            offset: u64::try_from(offset).map_err(|_| damaged())?,
            shape: self.sizes(*shape)?,
            strides: self.sizes(*strides)?,
            dtype,
        };
        self.tensors.push(tensor);
        self.push(Value::Tensor(self.tensors.len() - 1))
    }

    fn sizes(&self, value: Value<'_>) -> Result<Vec<u64>> {
        let Value::Tuple(index) = value else { return Err(damaged()) };
        let size = |value: &Value<'_>| match value {
            Value::Int(size) => u64::try_from(*size).map_err(|_| "a size is negative".to_owned()),
            _ => Err(damaged()),
        };
        let sizes = self.tuples.get(index).ok_or_else(damaged)?;
        if sizes.len() > MAX_RANK {
            return Err(format!("it has {} dimensions", sizes.len()));
        }
        sizes.iter().map(size).collect()
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| "a text of its pickle is not UTF-8".to_owned())
}

fn damaged() -> String {
    "its pickle is damaged".to_owned()
}

fn unknown(module: &str, name: &str) -> String {
    format!(
        "it asks for `{}.{}`, which a dictionary of tensors does not need; nothing in it was run; {SAVE}",
        quote(module),
        quote(name)
    )
}
