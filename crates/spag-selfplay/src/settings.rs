//! Settings that flags, configuration files and this crate share.

use spag_model::Sampling;

use crate::limits;

spag_io::settings! {
    /// How tokens are drawn.
    #[derive(Copy, clap::Args)]
    pub flags SamplingSettings {
        /// Sampling temperature, from 0.0001 to 10000; 0 is greedy.
        #[arg(value_name = "X")]
        pub temperature: f64 [limits::Temperature] = 1.2;
        /// Sample from the N most likely tokens, as the reference does; 0 means all tokens [default: 50]. Endpoints are asked for
        /// it only with this flag: vLLM and spag serve accept it, OpenAI refuses it.
        #[arg(value_name = "N")]
        pub top_k: Option<usize> [limits::TOP_K];
        /// Sample from the smallest set of most likely tokens whose probabilities sum to at least X.
        #[arg(value_name = "X")]
        pub top_p: Option<f64> [limits::TOP_P];
    }

    /// How long completions are. The reference has no minimum.
    #[derive(Copy, clap::Args)]
    pub flags LengthSettings {
        /// Maximum number of tokens in a completion.
        #[arg(value_name = "N")]
        pub max_new_tokens: usize [limits::NEW_TOKENS] = 256;
        /// Minimum number of tokens in a completion: EOS and stop tokens are not sampled before it is reached.
        #[arg(value_name = "N")]
        pub min_new_tokens: usize [limits::MIN_NEW_TOKENS] = 0;
    }

    /// How requests are sent to an endpoint.
    #[derive(Copy, clap::Args)]
    pub flags EndpointSettings {
        /// Maximum number of concurrent requests to an endpoint, at most 1024; in a pool, to each of its URLs.
        #[arg(value_name = "N", help_heading = "Endpoints")]
        pub requests_in_flight: usize [limits::REQUESTS_IN_FLIGHT] = 16;
        /// Rate limit: requests to an endpoint per minute, from 0.01 to 1000000; in a pool, to each of its URLs
        /// [default: unlimited].
        #[arg(value_name = "X", help_heading = "Endpoints")]
        pub requests_per_minute: Option<f64> [limits::REQUESTS_PER_MINUTE];
        /// Timeout in seconds of one attempt of a request to an endpoint, from 0.001 to 86400 (a day).
        #[arg(value_name = "X", help_heading = "Endpoints")]
        pub request_timeout: f64 [limits::REQUEST_TIMEOUT] = 120.0;
    }
}

impl SamplingSettings {
    /// How a model draws tokens. Without `top_k` from the 50 most likely ones, as in the reference.
    pub fn sampling(&self) -> Sampling {
        if self.temperature > 0.0 {
            Sampling::random(self.temperature, self.top_k.unwrap_or(Sampling::REFERENCE_TOP_K), self.top_p)
        } else {
            Sampling::Greedy
        }
    }

    /// The `top_k` that endpoints are asked for: the one that was set, if it restricts anything.
    pub fn top_k_asked(&self) -> Option<usize> {
        self.top_k.filter(|k| *k > 0 && self.temperature > 0.0)
    }
}
