//! What a learner trains: all weights of a model, or an adapter over weights that stay as they are.

use std::ops::Deref;
use std::sync::Arc;

use spag_model::adapter::Adapter;
use spag_model::packed_weights::QuantisedLayers;
use spag_model::params::{Adapted, AdapterWeights, FlatBuffers, WeightSource};

/// The frozen weights under an adapter, whole on every rank, and the adapter's settings and places.
pub(crate) struct AdaptedBase {
    pub(crate) base: Frozen,
    /// As it was when training began.
    pub(crate) adapter: Adapter,
}

/// Weights that stay as they are. Clones share them.
#[derive(Clone)]
pub(crate) enum Frozen {
    /// In the number format of training.
    Plain(FlatBuffers),
    /// Quantised, and dequantised a layer at a time.
    Quantised(Arc<QuantisedLayers>),
}

impl Deref for Frozen {
    type Target = dyn WeightSource;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Plain(weights) => weights,
            Self::Quantised(weights) => &**weights,
        }
    }
}

/// The weights of a learner as passes read them.
pub enum LearnedWeights<'a> {
    /// All of them are trained.
    Whole(&'a dyn WeightSource),
    /// An adapter is trained.
    Adapted(Adapted<'a>),
}

impl<'a> LearnedWeights<'a> {
    /// Those of a learner whose trained parameters are `trained`.
    pub(crate) fn new(trained: &'a dyn WeightSource, base: Option<&'a AdaptedBase>) -> Self {
        match base {
            None => Self::Whole(trained),
            Some(AdaptedBase { base, adapter }) => {
                let adapter = AdapterWeights { places: adapter.places(), weights: trained };
                Self::Adapted(Adapted { base: &**base, adapter })
            }
        }
    }
}

impl<'a> Deref for LearnedWeights<'a> {
    type Target = dyn WeightSource + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Whole(weights) => *weights,
            Self::Adapted(weights) => weights,
        }
    }
}
