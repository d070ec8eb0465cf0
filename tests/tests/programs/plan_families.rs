//! `spag plan` knows the parameters and the keys and values of common models exactly, from their published `config.json`.

use serde_json::{Value, json};
use spag_tests::{program, run};

/// Hidden size, feed-forward size, blocks, query heads and vocabulary.
fn sizes([d, f, l, h, v]: [u64; 5]) -> Value {
    json!({"hidden_size": d, "intermediate_size": f, "num_hidden_layers": l, "num_attention_heads": h, "vocab_size": v,
        "hidden_act": "silu", "initializer_range": 0.02, "use_cache": true, "torch_dtype": "bfloat16"})
}

fn with(sizes: [u64; 5], keys: Value) -> Value {
    let mut config = self::sizes(sizes);
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    config
}

fn llama(size: [u64; 5], kv: u64) -> Value {
    with(
        size,
        json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": kv,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_scaling": null, "pretraining_tp": 1}),
    )
}

fn llama3(size: [u64; 5], head_dim: u64, tied: bool, factor: f64) -> Value {
    with(
        size,
        json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_key_value_heads": 8,
        "head_dim": head_dim, "max_position_embeddings": 131_072, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
        "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": tied, "eos_token_id": [128_001, 128_008],
        "rope_scaling": {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3"}}),
    )
}

fn qwen2(size: [u64; 5], kv: u64, tied: bool) -> Value {
    with(
        size,
        json!({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_key_value_heads": kv,
        "max_position_embeddings": 32_768, "max_window_layers": size[2], "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "sliding_window": 32_768, "use_sliding_window": false, "tie_word_embeddings": tied}),
    )
}

fn qwen3(size: [u64; 5], tied: bool) -> Value {
    with(
        size,
        json!({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_key_value_heads": 8,
        "head_dim": 128, "attention_bias": false, "max_position_embeddings": 40_960, "max_window_layers": size[2],
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "rope_scaling": null, "sliding_window": null,
        "use_sliding_window": false, "tie_word_embeddings": tied}),
    )
}

fn baichuan2(size: [u64; 5], keys: Value) -> Value {
    let mut config = with(size, keys);
    let common = json!({"architectures": ["BaichuanForCausalLM"], "model_type": "baichuan", "model_max_length": 4096,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "z_loss_weight": 0});
    config.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
    config
}

#[test]
fn parameters_and_cache_of_published_models_are_known_exactly() {
    let models: [(&str, Value, u64, u64); 21] = [
        ("LLaMA-2-7B", llama([4096, 11_008, 32, 32, 32_000], 32), 6_738_415_616, 524_288),
        ("LLaMA-2-13B", llama([5120, 13_824, 40, 40, 32_000], 40), 13_015_864_320, 819_200),
        ("LLaMA-2-70B", llama([8192, 28_672, 80, 64, 32_000], 8), 68_976_648_192, 327_680),
        ("Llama-3.2-1B", llama3([2048, 8192, 16, 32, 128_256], 64, true, 32.0), 1_235_814_400, 32_768),
        ("Llama-3.2-3B", llama3([3072, 8192, 28, 24, 128_256], 128, true, 32.0), 3_212_749_824, 114_688),
        ("Llama-3.1-8B", llama3([4096, 14_336, 32, 32, 128_256], 128, false, 8.0), 8_030_261_248, 131_072),
        ("Qwen2.5-0.5B", qwen2([896, 4864, 24, 14, 151_936], 2, true), 494_032_768, 12_288),
        ("Qwen2.5-1.5B", qwen2([1536, 8960, 28, 12, 151_936], 2, true), 1_543_714_304, 28_672),
        ("Qwen2.5-7B", qwen2([3584, 18_944, 28, 28, 152_064], 4, false), 7_615_616_512, 57_344),
        ("Qwen3-0.6B", qwen3([1024, 3072, 28, 16, 151_936], true), 596_049_920, 114_688),
        ("Qwen3-4B", qwen3([2560, 9728, 36, 32, 151_936], true), 4_022_468_096, 147_456),
        ("Qwen3-8B", qwen3([4096, 12_288, 36, 32, 151_936], false), 8_190_735_360, 147_456),
        (
            "SmolLM2-135M",
            with(
                [576, 1536, 30, 9, 49_152],
                json!({"model_type": "llama", "num_key_value_heads": 3, "max_position_embeddings": 8192,
                "rms_norm_eps": 1e-5, "rope_theta": 100_000, "rope_interleaved": false, "is_llama_config": true,
                "tie_word_embeddings": true}),
            ),
            134_515_008,
            23_040,
        ),
        (
            "Mistral-7B",
            with(
                [4096, 14_336, 32, 32, 32_000],
                json!({"architectures": ["MistralForCausalLM"], "model_type": "mistral", "num_key_value_heads": 8,
                "max_position_embeddings": 32_768, "rms_norm_eps": 1e-5, "rope_theta": 1e4, "sliding_window": 4096}),
            ),
            7_241_732_096,
            131_072,
        ),
        (
            "Baichuan2-7B",
            baichuan2([4096, 11_008, 32, 32, 125_696], json!({"max_position_embeddings": 4096})),
            7_505_973_248,
            524_288,
        ),
        (
            "Baichuan2-13B",
            baichuan2([5120, 13_696, 40, 40, 125_696], json!({"gradient_checkpointing": false})),
            13_896_668_160,
            819_200,
        ),
        (
            "OLMo-3-7B",
            with(
                [4096, 11_008, 32, 32, 100_278],
                json!({"model_type": "olmo3", "num_key_value_heads": 32, "max_position_embeddings": 65_536,
                "rms_norm_eps": 1e-6, "rope_theta": 500_000, "sliding_window": 4096, "tie_word_embeddings": false,
                "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192,
                    "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.207_944_154_167_983_6}}),
            ),
            7_298_011_136,
            524_288,
        ),
        (
            "SmolLM3-3B",
            with(
                [2048, 11_008, 36, 16, 128_256],
                json!({"model_type": "smollm3", "num_key_value_heads": 4, "max_position_embeddings": 65_536,
                "rms_norm_eps": 1e-6, "rope_theta": 5e6, "no_rope_layer_interval": 4, "use_sliding_window": false}),
            ),
            3_075_098_624,
            73_728,
        ),
        (
            "Granite-3.1-2B",
            with(
                [2048, 8192, 40, 32, 49_155],
                json!({"model_type": "granite", "num_key_value_heads": 8, "max_position_embeddings": 131_072,
                "rms_norm_eps": 1e-5, "rope_theta": 5e6, "tie_word_embeddings": true, "embedding_multiplier": 12.0,
                "residual_multiplier": 0.22, "attention_multiplier": 0.015_625, "logits_scaling": 8.0}),
            ),
            2_533_531_648,
            81_920,
        ),
        (
            "Phi-3-mini-4k",
            with(
                [3072, 8192, 32, 32, 32_064],
                json!({"model_type": "phi3", "num_key_value_heads": 32, "max_position_embeddings": 4096,
                "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
                "rope_scaling": null, "sliding_window": 2047, "tie_word_embeddings": false}),
            ),
            3_821_079_552,
            393_216,
        ),
        (
            "Gemma-3-4B",
            json!({"model_type": "gemma3", "torch_dtype": "bfloat16", "eos_token_id": [1, 106],
                "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10_240,
                    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                    "sliding_window": 1024},
                "vision_config": {"model_type": "siglip_vision_model"}}),
            3_880_263_168,
            139_264,
        ),
    ];
    for (name, config, parameters, bytes_per_token) in models {
        let plan = plan(&config);
        assert_eq!(plan["parameters"], parameters, "{name}");
        // In bf16.
        assert_eq!(plan["playing"]["bytes_per_token"], bytes_per_token, "{name}");
        let whole = plan["plans"].as_array().unwrap().iter().find(|plan| plan["zero_stage"] == 0).unwrap();
        assert_eq!(whole["gpu"]["parameters"], 2 * parameters, "{name}");
    }
}

fn plan(config: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let (out, _) = run(program("spag").arg("plan").arg(&file).args(["--bf16", "True", "--json"]), 0);
    serde_json::from_str(&out).unwrap()
}
