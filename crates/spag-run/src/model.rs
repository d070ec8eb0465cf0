//! The models of a run and what they are called.

/// A model of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The base model, which is not copied.
    Base,
    /// The imitation model.
    Im,
    /// The model of an epoch, from 1.
    Spag(usize),
}

impl Model {
    /// The model that a stage makes; `None` for other stages.
    pub fn of_stage(stage: &str) -> Option<Self> {
        match stage {
            "base" => Some(Self::Base),
            "im" => Some(Self::Im),
            stage => stage.strip_prefix("spag-")?.parse().ok().map(Self::Spag),
        }
    }

    /// The stage that makes it.
    pub fn stage(self) -> String {
        match self {
            Self::Base => "base".to_owned(),
            Self::Im => "im".to_owned(),
            Self::Spag(epoch) => format!("spag-{epoch}"),
        }
    }

    /// The name in the report.
    pub fn name(self) -> String {
        match self {
            Self::Base => "base".to_owned(),
            model => model.stage().to_uppercase(),
        }
    }

    /// The model that plays the games which this one is trained on. `None` if no model of the run plays them.
    pub fn before(self) -> Option<Self> {
        match self {
            Self::Base | Self::Im => None,
            Self::Spag(epoch) => Some(if epoch <= 1 { Self::Im } else { Self::Spag(epoch - 1) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_named_after_the_models_that_they_make() {
        for model in [Model::Base, Model::Im, Model::Spag(1), Model::Spag(12)] {
            assert_eq!(Model::of_stage(&model.stage()), Some(model));
        }
        assert_eq!((Model::of_stage("eval"), Model::of_stage("spag-x")), (None, None));
        assert_eq!(Model::Spag(12).before().map(Model::name).as_deref(), Some("SPAG-11"));
    }
}
