//! The required fields of SentencePiece's `sentencepiece_model.proto`, with their numbers. Others are skipped and take no
//! memory.

use prost::Message;

/// `ModelProto`: the contents of a file.
#[derive(Message)]
pub(super) struct Model {
    #[prost(message, repeated, tag = "1")]
    pub(super) pieces: Vec<StoredPiece>,
    #[prost(message, optional, tag = "2")]
    pub(super) trainer: Option<TrainerSpec>,
    #[prost(message, optional, tag = "3")]
    pub(super) normalizer: Option<NormalizerSpec>,
    #[prost(message, optional, tag = "5")]
    pub(super) denormalizer: Option<NormalizerSpec>,
}

/// `ModelProto.SentencePiece`.
#[derive(Message)]
pub(crate) struct StoredPiece {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(float, tag = "2")]
    pub(crate) score: f32,
    /// 1 (normal, the default), 2 (unknown), 3 (control), 4 (user-defined), 5 (unused) or 6 (byte).
    #[prost(int32, optional, tag = "3")]
    pub(crate) kind: Option<i32>,
}

#[derive(Message)]
pub(super) struct TrainerSpec {
    /// 1 (Unigram, the default), 2 (BPE), 3 (words) or 4 (characters).
    #[prost(int32, optional, tag = "3")]
    pub(super) model_type: Option<i32>,
    #[prost(bool, tag = "24")]
    pub(super) treat_whitespace_as_suffix: bool,
    #[prost(bool, tag = "35")]
    pub(super) byte_fallback: bool,
    #[prost(string, optional, tag = "44")]
    pub(super) unk_surface: Option<String>,
}

#[derive(Clone, Message)]
pub(super) struct NormalizerSpec {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) precompiled_charsmap: Vec<u8>,
    #[prost(bool, optional, tag = "3")]
    pub(super) add_dummy_prefix: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub(super) remove_extra_whitespaces: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub(super) escape_whitespaces: Option<bool>,
}
