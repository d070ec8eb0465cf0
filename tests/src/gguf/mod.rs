//! Writes GGUF files.

mod folder;

pub use folder::interleave;

/// The value of a key.
#[derive(Clone, Debug)]
pub enum Value {
    /// 32 bits.
    Int(u32),
    /// 32 bits.
    Float(f32),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// An array of texts.
    Texts(Vec<String>),
    /// An array of numbers of 32 bits with a sign.
    Ints(Vec<i32>),
    /// An array of numbers of 32 bits.
    Floats(Vec<f32>),
    /// The number of a type, and what follows it.
    Raw(u32, Vec<u8>),
}

/// A tensor as ggml has it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its sizes, the fastest first.
    pub sizes: Vec<u64>,
    /// The number of its format: 0 for F32.
    pub kind: u32,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// What is in a file.
#[derive(Clone, Debug, Default)]
pub struct GgufFile {
    /// Keys with their values.
    pub keys: Vec<(String, Value)>,
    /// Tensors in the order of their data.
    pub tensors: Vec<Tensor>,
}

impl GgufFile {
    /// Sets a key.
    pub fn set(&mut self, key: &str, value: Value) {
        self.keys.retain(|(other, _)| other != key);
        self.keys.push((key.to_owned(), value));
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.keys.retain(|(other, _)| other != key);
    }

    /// Adds a tensor in F32.
    pub fn add_f32(&mut self, name: &str, sizes: &[u64], values: &[f32]) {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push(Tensor { name: name.to_owned(), sizes: sizes.to_vec(), kind: 0, data });
    }

    /// The bytes of the file, in version 3 with data at multiples of 32.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            out.extend(text(key));
            out.extend(written(value));
        }
        let mut at = 0u64;
        for tensor in &self.tensors {
            out.extend(text(&tensor.name));
            out.extend((tensor.sizes.len() as u32).to_le_bytes());
            out.extend(tensor.sizes.iter().flat_map(|size| size.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(at.to_le_bytes());
            at = (at + tensor.data.len() as u64).next_multiple_of(32);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(&tensor.data);
        }
        out
    }
}

/// A text after its length.
pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A value after its type.
fn written(value: &Value) -> Vec<u8> {
    let with_type = |kind: u32, bytes: Vec<u8>| [&kind.to_le_bytes()[..], &bytes].concat();
    let array = |kind: u32, count: usize, bytes: Vec<u8>| {
        with_type(9, [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes(), &bytes].concat())
    };
    match value {
        Value::Int(number) => with_type(4, number.to_le_bytes().to_vec()),
        Value::Float(number) => with_type(6, number.to_le_bytes().to_vec()),
        Value::Bool(truth) => with_type(7, vec![u8::from(*truth)]),
        Value::Text(content) => with_type(8, text(content)),
        Value::Texts(texts) => array(8, texts.len(), texts.iter().flat_map(|content| text(content)).collect()),
        Value::Ints(numbers) => array(5, numbers.len(), numbers.iter().flat_map(|n| n.to_le_bytes()).collect()),
        Value::Floats(numbers) => array(6, numbers.len(), numbers.iter().flat_map(|n| n.to_le_bytes()).collect()),
        Value::Raw(kind, bytes) => with_type(*kind, bytes.clone()),
    }
}
